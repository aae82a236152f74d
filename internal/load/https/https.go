// Package https is the load http over TLS and HTTP/2, which the standard library provides.
// It is too large for the agent, whose start is measured, so tare's own program runs it
// outside of the container.
package https

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdhttp "net/http"
	"net/http/httptrace"
	"runtime"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/http"
)

// Name is the name of the load.
const Name = "https"

// Run runs the load https. Its options are those of the load http, and tls and http2.
func Run(a *load.Args) (*load.Report, error) {
	secure := a.Word("tls", "yes", "yes", "no") == "yes"
	second := a.Word("http2", "no", "no", "yes") == "yes"
	return http.RunWith(a, func(p *http.Plan, t *http.Target) http.Client {
		return newClient(p, t, secure, second)
	})
}

// A client has a transport, and so a connection, for each lane.
type client struct {
	url         string
	host        string
	httpVersion int // of the version of HTTP
	transports  []*stdhttp.Transport
	buffer      [][]byte
}

// bufferBytes is how much of a body is read at once, in bytes.
const bufferBytes = 64 << 10

func newClient(p *http.Plan, t *http.Target, secure, second bool) *client {
	c := &client{host: t.Host, httpVersion: 1, url: "http://" + t.At.String() + t.Path}
	if secure {
		c.url = "https://" + t.At.String() + t.Path
	}
	if second {
		c.httpVersion = 2
	}
	for range p.Connections {
		c.buffer = append(c.buffer, make([]byte, bufferBytes))
		lane := newTransport(second)
		lane.DisableKeepAlives = !p.KeepAlive
		c.transports = append(c.transports, lane)
	}
	return c
}

// newTransport supports one version of HTTP, with and without TLS.
func newTransport(second bool) *stdhttp.Transport {
	var protocols stdhttp.Protocols
	protocols.SetHTTP1(!second)
	protocols.SetHTTP2(second)
	protocols.SetUnencryptedHTTP2(second)
	return &stdhttp.Transport{
		Protocols: &protocols, DisableCompression: true, MaxIdleConnsPerHost: 1, MaxResponseHeaderBytes: maxHead,
		// tare has made the certificate for this run itself.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
}

// Ready requests a page until there is a good answer or ctx ends. The error is that of the
// last attempt that ctx did not cut off.
func Ready(ctx context.Context, url string, second bool) error {
	const pause, answerTime = 5 * time.Millisecond, time.Second
	lane := newTransport(second)
	defer lane.CloseIdleConnections()
	// The load does not follow redirections, so Ready does not either.
	stay := func(*stdhttp.Request, []*stdhttp.Request) error { return stdhttp.ErrUseLastResponse }
	c := &stdhttp.Client{Transport: lane, Timeout: answerTime, CheckRedirect: stay}
	for last := error(nil); ; {
		err := fetch(ctx, c, url)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", http.ErrNoAnswer, last)
		case <-time.After(pause):
		}
	}
}

// fetch requests a page once.
func fetch(ctx context.Context, c *stdhttp.Client, url string) error {
	request, err := stdhttp.NewRequestWithContext(ctx, stdhttp.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if response.StatusCode != stdhttp.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// maxHead is the largest size of the head of an answer.
const maxHead = 64 << 10

// Ask implements http.Client.
func (c *client) Ask(ctx context.Context, lane int) http.Answer {
	var n requestTimes
	request, err := stdhttp.NewRequestWithContext(httptrace.WithClientTrace(ctx, n.trace()), stdhttp.MethodGet, c.url, nil)
	if err != nil {
		return http.Answer{Err: err, Kind: http.FailedConnect}
	}
	request.Host = c.host
	response, err := c.transports[lane].RoundTrip(request)
	var body int64
	if err == nil {
		body, err = c.read(response, lane)
	}
	a := n.answer()
	if err != nil {
		a.Err, a.Kind = err, kindOf(ctx, &a)
		c.transports[lane].CloseIdleConnections()
		return a
	}
	a.Status, a.Length = response.StatusCode, body
	return a
}

// read reads an answer to its end, and returns the length of its body.
func (c *client) read(r *stdhttp.Response, lane int) (body int64, err error) {
	for err == nil {
		var n int
		n, err = r.Body.Read(c.buffer[lane])
		body += int64(n)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && r.ProtoMajor != c.httpVersion {
		err = fmt.Errorf("the server answers with %s instead of HTTP/%d", r.Proto, c.httpVersion)
	}
	return body, errors.Join(err, r.Body.Close())
}

// kindOf returns why a request failed: its time was over, no connection could be made, or
// the answer broke off.
func kindOf(ctx context.Context, a *http.Answer) http.Kind {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return http.FailedTime
	case a.Sent.IsZero():
		return http.FailedConnect
	default:
		return http.FailedRead
	}
}

// requestTimes are the times of one request. They need a lock because the transport may continue
// to connect after the request has ended.
type requestTimes struct {
	mu sync.Mutex
	at http.Answer
}

func (n *requestTimes) record(do func(a *http.Answer, now time.Time)) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	do(&n.at, now)
}

// trace notes times. TLS is part of a connection.
func (n *requestTimes) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		ConnectStart: func(string, string) { n.record(func(a *http.Answer, now time.Time) { a.Opened = now }) },
		GotConn: func(info httptrace.GotConnInfo) {
			n.record(func(a *http.Answer, now time.Time) {
				if a.Sent = now; info.Reused {
					a.Opened = time.Time{}
				}
				a.Connected = now
			})
		},
		GotFirstResponseByte: func() { n.record(func(a *http.Answer, now time.Time) { a.First = now }) },
	}
}

func (n *requestTimes) answer() http.Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at
}

// CloseAll implements http.Client.
func (c *client) CloseAll() {
	for _, lane := range c.transports {
		lane.CloseIdleConnections()
	}
	runtime.GC() // so that no collection from one rate of a ramp falls into the next
}
