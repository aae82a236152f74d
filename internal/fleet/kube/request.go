package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// What is read of an answer at most, in bytes.
const (
	maxAnswer = 32 << 20 // a page of a list has 500 objects
	maxStatus = 64 << 10
)

// timeout is how long one answer may take.
const timeout = time.Minute

// A request is one call, which may be made several times.
type request struct {
	verb      string // such as "create", for errors
	what      string // such as "Job", for errors
	namespace string // for errors
	name      string // for errors
	method    string
	path      []string // below the server's address; not escaped
	query     url.Values
	body      []byte
	again     bool          // making it twice is no other than making it once
	patience  time.Duration // 0 = the client's
}

// ask makes a request and reads its answer, JSON, into a value; nil = it is not read. After errors that may pass, the
// request is made again; the number says how often it was made.
func (c *Client) ask(ctx context.Context, r *request, into any) (int, error) {
	return c.repeat(ctx, r, func() error {
		return c.once(ctx, r, func(body io.Reader) error {
			if into == nil {
				return nil
			}
			all, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
			if err != nil {
				return &Error{request: r, cause: err}
			}
			if len(all) > maxAnswer {
				return r.errorf("the answer is larger than %d MiB", maxAnswer>>20)
			}
			if err := json.Unmarshal(all, into); err != nil {
				return r.errorf("the answer is not what an API server says: %v", err)
			}
			return nil
		})
	})
}

// once makes a request once, and lets read have what the server says if it says yes.
func (c *Client) once(ctx context.Context, r *request, read func(io.Reader) error) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	release, err := c.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	return read(answer.Body)
}

// wait waits until the rate allows a request. That is no time of the request itself, however small the rate is.
func (c *Client) wait(ctx context.Context) error {
	if err := c.limiter.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return context.DeadlineExceeded // it would be over before the request may be made
	}
	return nil
}

// slot waits until a request may be under way.
func (c *Client) slot(ctx context.Context) (release func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// send makes a request once. It must be its turn: see wait. The answer is one that says yes.
func (c *Client) send(ctx context.Context, r *request) (*http.Response, error) {
	u := *c.base
	escaped := make([]string, len(r.path))
	for i, p := range r.path {
		escaped[i] = url.PathEscape(p)
	}
	u.RawQuery = r.query.Encode()
	request, err := http.NewRequestWithContext(ctx, r.method, u.JoinPath(escaped...).String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, r.errorf("%v", err)
	}
	request.Header.Set("Accept", "application/json, */*;q=0.1") // logs are text
	switch {
	case r.method == http.MethodPatch:
		request.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	case r.body != nil:
		request.Header.Set("Content-Type", "application/json")
	}
	c.calls.Add(1)
	answer, err := c.http.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the whole address
		}
		return nil, &Error{request: r, cause: err, server: c.Server()}
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	return nil, refusal(r, answer)
}

// repeat calls once until it succeeds, fails for good, or has failed for too long.
func (c *Client) repeat(ctx context.Context, r *request, once func() error) (int, error) {
	patience := r.patience
	if patience == 0 {
		patience = c.patience
	}
	began := time.Now()
	for n := 1; ; n++ {
		err := once()
		if err == nil || ctx.Err() != nil || !mayPass(err, r.again, n) {
			return n, err
		}
		pause := max(backoff(n), retryAfter(err))
		if time.Since(began)+pause > patience {
			return n, err
		}
		c.trouble(err)
		if err := sleep(ctx, pause); err != nil {
			return n, err
		}
	}
}

// mayPass reports whether the n-th error of a request is one after which it is made again.
func mayPass(err error, again bool, n int) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch {
	case e.Code == http.StatusTooManyRequests: // the server has not looked at it
		return true
	case !again:
		return false
	case e.Code == http.StatusInternalServerError: // a leader that changes, or a webhook that is broken for good
		return n < 5
	case e.Code != 0:
		return e.Code > http.StatusInternalServerError
	}
	var certificate *tls.CertificateVerificationError
	return e.cause != nil && !errors.As(err, &certificate) && !strings.Contains(e.cause.Error(), "getting credentials")
}

// backoff is how long to wait after the n-th error in a row: more each time, and not the same for all clients.
func backoff(n int) time.Duration {
	most := min(15*time.Second, 250*time.Millisecond<<min(n-1, 10))
	return most/2 + rand.N(most/2)
}

func retryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.retryAfter
	}
	return 0
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *request) errorf(format string, args ...any) error {
	return &Error{request: r, Message: fmt.Sprintf(format, args...)}
}
