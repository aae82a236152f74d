package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// dialTime limits how long it may take to reach a server and to be admitted. A busy server makes
// the client wait.
const dialTime = sessionWait + 10*time.Second

// A Target is what a client needs to know about a server.
type Target struct {
	Address string // HOST:PORT
	Token   Token
	Version string // of this tare
}

// A Session is a connection to a server, for any number of concurrent operations.
type Session struct {
	address    string
	conn       *http.ClientConn
	serverAddr netip.Addr
	lost       chan struct{}
}

// Dial begins a session. If the server answers but does not admit the client, the error wraps
// ErrToken, ErrVersion or ErrBusy.
func Dial(ctx context.Context, t Target) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	s := &Session{address: t.Address, lost: make(chan struct{})}
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: keepAliveTime, PingTimeout: keepAliveTime, WriteByteTimeout: writeTimeout,
		},
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx, t) },
	}
	var err error
	if s.conn, err = transport.NewClientConn(ctx, "https", t.Address); err != nil {
		return nil, err
	}
	ended := sync.OnceFunc(func() { close(s.lost) })
	s.conn.SetStateHook(func(c *http.ClientConn) {
		if c.Err() != nil {
			ended()
		}
	})
	return s, nil
}

// dial connects and greets. It does not verify the server's certificate, because the greeting
// authenticates the server.
func (s *Session) dial(ctx context.Context, t Target) (net.Conn, error) {
	raw, err := reach(ctx, t.Address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, &tls.Config{MinVersion: tlsVersion, NextProtos: []string{"h2"}, InsecureSkipVerify: true})
	if err := authenticate(ctx, conn, t); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", t.Address, err), raw.Close())
	}
	at, _ := netip.ParseAddrPort(raw.RemoteAddr().String()) // a TCP connection has addresses
	s.serverAddr = at.Addr().Unmap()
	return conn, nil
}

// reach prefers IPv4 if a name has both kinds of address: the measured containers are then reached
// at that address too, and not every server listens on IPv6.
func reach(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp4", address)
	if err == nil {
		return conn, nil
	}
	if other, otherErr := (&net.Dialer{}).DialContext(ctx, "tcp6", address); otherErr == nil {
		return other, nil
	}
	return nil, err
}

func authenticate(ctx context.Context, conn *tls.Conn, t Target) error {
	deadline, _ := ctx.Deadline() // Dial has set one
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("'tare agent serve' does not answer there: start it on that machine: %w", err)
	}
	if err := greet(conn, t.Token, t.Version); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// Server is the address at which the server was reached.
func (s *Session) Server() netip.Addr { return s.serverAddr }

// Err returns why the session has ended; nil while it lasts.
func (s *Session) Err() error { return s.conn.Err() }

// Lost is closed when the session has ended.
func (s *Session) Lost() <-chan struct{} { return s.lost }

// Close ends the session. The server then removes whatever is left of it.
func (s *Session) Close() error { return s.conn.Close() }

// Call makes the server do an operation, and decodes the answer into out unless that is nil. When
// ctx ends, the server cancels the operation, and the error is ctx's.
func (s *Session) Call(ctx context.Context, name string, r Request, out any) error {
	body, err := s.ask(ctx, name, r)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(body, maxResponse+1))
	switch {
	case err != nil:
		return s.callError(ctx, name, err)
	case len(text) > maxResponse:
		return fmt.Errorf("%s: the answer to %s has more than %d bytes", s.address, name, maxResponse)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: the answer to %s: %w", s.address, name, err)
	}
	return nil
}

// Stream makes the server do an operation that answers with a stream, which lasts until the reader
// is closed or ctx ends.
func (s *Session) Stream(ctx context.Context, name string, r Request) (io.ReadCloser, error) {
	return s.ask(ctx, name, r)
}

// ask sends a request, and returns the body of a successful answer.
func (s *Session) ask(ctx context.Context, name string, r Request) (io.ReadCloser, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://server/"+name, bytes.NewReader(text))
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
		return nil, fmt.Errorf("%s: %s: %s", s.address, name, resp.Status)
	}
	return nil, f.err(s.address)
}

// callError returns the error for a missing answer.
func (s *Session) callError(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s: the connection was lost during %s; the server removes everything that this session made: "+
		"%w", s.address, name, err)
}

// RoundTrip returns the shortest of a few round trips to the server, including the time of its
// answer.
func (s *Session) RoundTrip(ctx context.Context) (time.Duration, error) {
	const times = 5
	shortest := time.Duration(0)
	for i := range times {
		began := time.Now()
		if err := s.Call(ctx, OpPing, Request{}, nil); err != nil {
			return 0, err
		}
		if took := time.Since(began); i == 0 || took < shortest {
			shortest = took
		}
	}
	return shortest, nil
}
