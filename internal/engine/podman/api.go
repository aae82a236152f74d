package podman

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// root is where the API begins. Every Podman since 4.0 serves this version.
const root = "http://podman/v4.0.0/libpod"

// Limits on the length of an answer. A service has no reason to send more.
const (
	maxAnswer = 16 << 20
	maxError  = 64 << 10
)

// transport keeps connections to the socket open.
func transport(socket string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, socket)
		},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    64,
		MaxResponseHeaderBytes: maxError,
	}
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", socket)
}

// An apiError is Podman's own error.
type apiError struct {
	Status  int    `json:"-"`
	Cause   string `json:"cause"` // the first error, in words that do not change
	Message string `json:"message"`
}

func (e *apiError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("HTTP status %d", e.Status)
	}
	return fmt.Sprintf("%.500q", e.Message)
}

// gone reports whether Podman says that there is no such object.
func gone(err error) bool {
	var e *apiError
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

func (c *client) get(ctx context.Context, path string, out any) error {
	return c.call(ctx, http.MethodGet, path, nil, out)
}

// survey is get for an answer about objects that other programs make and remove: see again.
func survey[T any](ctx context.Context, c *client, path string) (answer T, err error) {
	err = again(ctx, func() error {
		var now T
		err := c.get(ctx, path, &now)
		answer = now
		return err
	})
	return answer, err
}

// again does something once more, up to 20 times, while Podman fails. It does where another program makes or removes
// an image, container or volume at the same time: it looks at each twice, and at an image before all of it is there.
func again(ctx context.Context, do func() error) (err error) {
	const tries, pause = 20, 50 * time.Millisecond
	for range tries {
		err = do()
		if e, ok := errors.AsType[*apiError](err); !ok || e.Status < http.StatusInternalServerError {
			return err
		}
		if err := bench.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	return err
}

func (c *client) post(ctx context.Context, path string, in, out any) error {
	return c.call(ctx, http.MethodPost, path, in, out)
}

// call makes one call. It sends in as JSON, and reads the answer's JSON into
// out, unless they are nil.
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	answer, err := c.send(ctx, method, path, "application/json", body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	r := io.LimitReader(answer.Body, maxAnswer)
	if out != nil {
		err = json.NewDecoder(r).Decode(out)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, r) // a connection can be used again once its answer was read to the end
	}
	return bench.Because(ctx, err)
}

// remove removes an object. It is not an error if there is none. The objects outlive a service that
// tare started, so a service that has died is started again.
func (c *client) remove(ctx context.Context, path string) error {
	remove := func() error { return c.call(ctx, http.MethodDelete, path, nil, nil) }
	err := remove()
	if _, answered := errors.AsType[*apiError](err); err != nil && !answered && ctx.Err() == nil {
		if c.ownService != nil && c.ownService.ensureRunning(ctx, 100*time.Millisecond) == nil {
			err = remove()
		}
	}
	if gone(err) {
		return nil
	}
	return err
}

// send sends a request. The error is an apiError if the service has answered with one.
func (c *client) send(ctx context.Context, method, path, kind string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, root+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", kind)
	return c.do(r)
}

func (c *client) do(r *http.Request) (*http.Response, error) {
	answer, err := c.http.Do(r)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the caller says which call it was
	}
	if err != nil {
		return nil, bench.Because(r.Context(), err)
	}
	if answer.StatusCode < http.StatusBadRequest { // 304: already so
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	failure := &apiError{}
	// If the answer is not JSON, the error still has the status, which says enough.
	_ = json.NewDecoder(io.LimitReader(answer.Body, maxError)).Decode(failure)
	failure.Status = answer.StatusCode
	return nil, failure
}

// hijack makes a call whose connection then carries output. The caller closes the connection.
func (c *client) hijack(ctx context.Context, path string, in any) (io.ReadCloser, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, root+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "tcp")
	answer, err := c.do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, errors.Join(fmt.Errorf("HTTP status %d instead of a stream", answer.StatusCode), answer.Body.Close())
	}
	return answer.Body, nil
}
