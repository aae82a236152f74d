package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"
)

// maxResponse limits what is read of one answer, in bytes.
const maxResponse = 4 << 20

// A Session is a connection to a tare on another machine, for any number of concurrent operations.
type Session struct {
	host    string
	greeted Greeting
	conn    *http.ClientConn
	process *process      // nil if there is none
	ending  time.Duration // how long Close waits
	lost    chan struct{}
	once    sync.Once
}

// newSession begins to speak HTTP/2 with a program that has greeted.
func newSession(ctx context.Context, p *process, host string, greeted Greeting) (*Session, error) {
	s, err := speak(ctx, host, greeted, &duplex{reader: p.buffer, in: p.out, out: p.in}, keepAliveTime)
	if err != nil {
		return nil, err
	}
	s.process, s.ending = p, endTime
	go func() { // a connection whose process is gone is lost
		<-p.ended
		_ = s.conn.Close()
		s.setLost()
	}()
	return s, nil
}

// Dial begins a session over two files, with what Serve serves at their other ends. Closing the
// session closes them.
func Dial(ctx context.Context, t Target, in, out *os.File) (*Session, error) {
	p := &process{in: out, out: in, buffer: bufio.NewReaderSize(in, maxLine)}
	_, line, err := p.nextLine(greetLine)
	if err != nil {
		return nil, fmt.Errorf("%s: no greeting: %w", t.Host, err)
	}
	greeted, err := parseGreeting(t, line)
	if err != nil {
		return nil, err
	}
	end := func() { _ = in.Close() } // it was only read
	return speak(ctx, t.Host, greeted, &duplex{reader: p.buffer, in: in, out: out, closed: end}, keepAliveTime)
}

// speak begins a session on a connection. What alive is, keepAliveTime says.
func speak(ctx context.Context, host string, greeted Greeting, d *duplex, alive time.Duration) (*Session, error) {
	s := &Session{host: host, greeted: greeted, lost: make(chan struct{})}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true) // ssh encrypts
	transport := &http.Transport{
		Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: alive, PingTimeout: alive, WriteByteTimeout: writeTimeout,
		},
		DialContext: func(context.Context, string, string) (net.Conn, error) { return d, nil },
	}
	var err error
	if s.conn, err = transport.NewClientConn(ctx, "http", "peer:80"); err != nil {
		return nil, err
	}
	s.conn.SetStateHook(func(c *http.ClientConn) {
		if c.Err() != nil {
			s.setLost()
		}
	})
	return s, nil
}

func (s *Session) setLost() { s.once.Do(func() { close(s.lost) }) }

// Host is the destination, as the Target named it.
func (s *Session) Host() string { return s.host }

// Address is the other machine's address to which ssh connected, as that machine sees it; invalid
// if it is not known.
func (s *Session) Address() netip.Addr { return s.greeted.Address }

// Err returns why the session has ended; nil while it lasts.
func (s *Session) Err() error {
	select {
	case <-s.lost:
		return &Error{Host: s.host, Kind: Lost, Text: "the connection was lost", err: s.conn.Err()}
	default:
		return s.conn.Err()
	}
}

// Lost is closed when the session has ended.
func (s *Session) Lost() <-chan struct{} { return s.lost }

// Close ends the session. It waits until tare on the other machine has cleaned up and ended, but not
// for ever, and not for a machine to which the connection is lost: who used it was told that. An error
// says that tare may have left something there.
func (s *Session) Close() error {
	limit, wasLost := s.ending, s.Err() != nil
	if wasLost {
		limit = lostTime
	}
	err := s.conn.Close()
	s.setLost()
	p := s.process
	if p == nil {
		return err
	}
	go p.drain()
	err = nil // what a connection says that ends is no news: the end of the process counts
	if !p.waitFor(limit) && !wasLost {
		err = &Error{Host: s.host, Kind: Lost, Text: "tare has not ended there: run 'tare clean' on that machine"}
	}
	p.abandon()
	return err
}

// drain reads what the process still says, so that it does not fail for want of a reader.
func (p *process) drain() {
	for { // until the reader before has stopped and has taken its deadline with it
		_ = p.out.SetReadDeadline(time.Time{})
		_, err := io.Copy(io.Discard, p.out)
		select {
		case <-p.ended:
			return
		default:
		}
		if err == nil || !os.IsTimeout(err) {
			return
		}
	}
}

// Call makes the other side do an operation, and decodes the answer into out unless that is nil. When
// ctx ends, the other side cancels the operation, and the error is ctx's.
func (s *Session) Call(ctx context.Context, name string, in, out any) error {
	body, err := s.Stream(ctx, name, in)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(body, maxResponse+1))
	switch {
	case err != nil:
		return s.callError(ctx, name, err)
	case len(text) > maxResponse:
		return fmt.Errorf("%s: the answer to %s has more than %d bytes", s.host, name, maxResponse)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: the answer to %s: %w", s.host, name, err)
	}
	return nil
}

// Stream makes the other side do an operation that answers with a stream, which lasts until the
// reader is closed or ctx ends.
func (s *Session) Stream(ctx context.Context, name string, in any) (io.ReadCloser, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	return s.Send(ctx, name, bytes.NewReader(text))
}

// Send makes the other side do an operation with a stream as its input, and returns the answer as one.
func (s *Session) Send(ctx context.Context, name string, in io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://peer/"+name, in)
	if err != nil {
		return nil, err
	}
	resp, err := s.conn.RoundTrip(req)
	if err != nil {
		return nil, s.callError(ctx, name, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	var f failure
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxResponse)).Decode(&f); err != nil || f.Text == "" {
		return nil, fmt.Errorf("%s: %s: %s", s.host, name, resp.Status)
	}
	return nil, f.err(s.host)
}

// callError returns the error for a missing answer.
func (s *Session) callError(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Error{
		Host: s.host, Kind: Lost, err: err,
		Text: fmt.Sprintf("the connection was lost during %s: %v", name, err),
	}
}

// RoundTrip returns the shortest of a few round trips to the other side by ssh, including the time of
// its answer. Name is an operation that does nothing.
func (s *Session) RoundTrip(ctx context.Context, name string) (time.Duration, error) {
	const times = 5
	shortest := time.Duration(0)
	for i := range times {
		began := time.Now()
		if err := s.Call(ctx, name, struct{}{}, nil); err != nil {
			return 0, err
		}
		if took := time.Since(began); i == 0 || took < shortest {
			shortest = took
		}
	}
	return shortest, nil
}
