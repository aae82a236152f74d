package ready

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// The time limits of one check. dialLimit is short because the kernel sends a lost
// packet again only after a second.
const (
	dialLimit   = 100 * time.Millisecond
	answerLimit = 5 * time.Second
	proxyLimit  = 20 * time.Millisecond
	maxHeader   = 64 << 10
)

func (s *Service) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: dialLimit}
	return d.DialContext(ctx, "tcp4", s.at.String())
}

// accepts reports whether a connection is accepted by the service.
func (s *Service) accepts(ctx context.Context, seen *Moments) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing was written
	at := s.clock.Now()
	if s.proxied {
		if err := staysOpen(c); err != nil {
			return fmt.Errorf("%v accepts connections and closes them at once: %w", s.at, err)
		}
	}
	seen.Port, seen.Ready = at, at
	return nil
}

// staysOpen tells a service that accepts a connection from a proxy in front of it. A proxy
// accepts everything, and closes the connection at once if no service is behind it.
func staysOpen(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(proxyLimit)); err != nil {
		return err
	}
	var b [1]byte
	_, err := c.Read(b[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// answers requests the path, on a new connection.
func (s *Service) answers(ctx context.Context, seen *Moments) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the part of the answer that matters was read
	if err := c.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if seen.Port == 0 && !s.proxied {
		seen.Port = s.clock.Now()
	}
	status, err := s.ask(c)
	if err != nil {
		return fmt.Errorf("HTTP: %w", err)
	}
	if status < http.StatusOK || status >= http.StatusBadRequest {
		return fmt.Errorf("HTTP status %d for %s: %w", status, s.condition.path, errPath)
	}
	seen.Ready = s.clock.Now()
	if seen.Port == 0 {
		seen.Port = seen.Ready
	}
	return nil
}

// ask sends a request and reads the header of the answer. It skips informational
// answers, such as early hints.
func (s *Service) ask(c net.Conn) (status int, err error) {
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: tare\r\nConnection: close\r\n\r\n",
		s.condition.path, s.at)
	if err != nil {
		return 0, err
	}
	r := bufio.NewReader(io.LimitReader(c, maxHeader))
	for status < http.StatusOK {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			return 0, err
		}
		status = answer.StatusCode
	}
	return status, nil // the body is not needed: the service has begun to answer
}

// healthy runs the health check in the container.
func (s *Service) healthy(ctx context.Context, seen *Moments) error {
	execer, ok := bench.As[bench.Execer](s.engine)
	if !ok {
		return fmt.Errorf(
			"%w: engine %s cannot run another program in a container", bench.ErrUnsupported, s.engine.Name())
	}
	exit, err := execer.Exec(ctx, s.Container(), s.condition.command, nil, nil)
	if err != nil {
		return err
	}
	if exit != (bench.Exit{}) {
		return fmt.Errorf("%s ended with %v", s.condition.command[0], exit)
	}
	seen.Ready = s.clock.Now()
	return nil
}
