package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// errStalled ends an exchange with a registry that makes no progress.
var errStalled = errors.New("the registry has stopped answering")

// errSlow ends an exchange that makes progress, but would take unreasonably long.
var errSlow = errors.New("the registry is too slow")

// errPlain refuses plain HTTP over a network, where others could read passwords.
var errPlain = errors.New("plain HTTP is only for a registry of this host, at localhost or 127.0.0.1")

const (
	attempts     = 3
	maxRedirects = 10

	// minProgress is how many bytes must arrive within patience.idle. Even the slowest line
	// brings more. Without it, a registry that sends a byte now and then would never end.
	minProgress = 4 << 10

	// minRate is the lowest rate at which a layer may arrive, in bytes per second. A slow line
	// today brings ten times as much.
	minRate = 32 << 10
)

// retryPolicy is how long tare waits for a registry.
type retryPolicy struct {
	idle  time.Duration // within which minProgress must arrive
	pause time.Duration // before the second attempt; three times that before the third
}

// retry calls do, and repeats it while repeating can help. All attempts together have the time for
// size bytes; 0 means a small document.
func (p retryPolicy) retry(ctx context.Context, size int64, do func(context.Context) error) error {
	limit := 8*p.idle + time.Duration(size/minRate)*time.Second
	slow := fmt.Errorf("%w: the content has not arrived after %v", errSlow, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, slow)
	defer cancel()
	pause := p.pause
	for n := 1; ; n++ {
		err := do(ctx)
		if err == nil || n == attempts || !isTransient(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
			pause *= 3
		}
	}
}

// isTransient reports whether another attempt may succeed.
func isTransient(err error) bool {
	var status *transport.Error
	if errors.As(err, &status) {
		return status.StatusCode == http.StatusTooManyRequests || status.StatusCode >= 500
	}
	var network net.Error
	return errors.Is(err, errStalled) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &network) && network.Timeout()
}

// credentials reads Docker's usual configuration and asks the helper programs that it names. A
// helper may never answer, so most limits the time.
func credentials(ctx context.Context, repo name.Repository, most time.Duration) (authn.Authenticator, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, most, errors.New("no answer"))
	defer cancel()
	type answer struct {
		who authn.Authenticator
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		who, err := authn.Resolve(ctx, authn.DefaultKeychain, repo)
		answered <- answer{who, err}
	}()
	var a answer
	select {
	case a = <-answered:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	}
	if a.err != nil {
		return nil, fmt.Errorf("credentials for %s, from Docker's config.json or a helper that it names: %w",
			repo.RegistryStr(), a.err)
	}
	return a.who, nil
}

// bounded is the transport below go-containerregistry's client. It decides where a registry may
// redirect to. It limits the length of documents and the time without progress, and verifies
// digests.
type bounded struct {
	next http.RoundTripper
	idle time.Duration
}

// RoundTrip implements http.RoundTripper.
func (t bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	origin := request
	for hops := 0; origin.Response != nil; hops++ { // the redirection that led here
		if hops == maxRedirects {
			return nil, fmt.Errorf("more than %d redirections", maxRedirects)
		}
		origin = origin.Response.Request
	}
	if err := checkAddress(origin.URL, request.URL); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancelCause(request.Context())
	b := &watchedBody{ctx: ctx, cancel: cancel}
	go b.watch(t.idle)
	answer, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		defer cancel(nil)
		return nil, b.cause(err)
	}
	b.got.Add(minProgress) // the start of the answer counts as progress
	b.ReadCloser = answer.Body
	answer.Body = content(b, origin.URL, answer.StatusCode)
	return answer, nil
}

// content limits and verifies a body, depending on the request. Only the reader of a blob knows the
// blob's limit.
func content(body io.ReadCloser, asked *url.URL, status int) io.ReadCloser {
	dir, id := path.Split(asked.Path)
	kind := path.Base(dir)
	if want, err := v1.NewHash(id); err == nil && status == http.StatusOK && (kind == "blobs" || kind == "manifests") {
		body = verified(body, want, id)
	}
	if kind != "blobs" {
		left, long := maxDocument, body
		body = section{readerFunc(func(p []byte) (int, error) {
			n, err := long.Read(p)
			if left -= n; left < 0 {
				return 0, tooLong(asked.Path, maxDocument)
			}
			return n, err
		}), long}
	}
	return body
}

func tooLong(name string, most int64) error {
	return fmt.Errorf("%w: %.100q is longer than %d bytes", ErrHostile, name, most)
}

// checkAddress prevents a registry from redirecting tare to machines that only this one can reach,
// and passwords from being sent over plain HTTP.
func checkAddress(from, to *url.URL) error {
	switch {
	case to.Scheme == "http" && !isLoopback(to.Hostname()):
		return fmt.Errorf("%s: %w", to.Host, errPlain)
	case to.Host == from.Host:
		return nil
	case isLoopback(to.Hostname()):
		return fmt.Errorf("%w: %s redirects to %s, another service of this machine", ErrHostile, from.Host, to.Host)
	case isPrivateHost(to.Hostname()) && to.Hostname() != from.Hostname():
		return fmt.Errorf("%w: %s redirects to %s, an address of this network", ErrHostile, from.Host, to.Host)
	}
	return nil
}

// A guard checks the addresses behind names like checkAddress: a registry on the Internet may not
// redirect to an address of this network under any name.
type guard struct {
	registry  string // host and port; it and a proxy may be dialled without a check
	proxied   bool
	isPrivate atomic.Bool // the registry itself is on this network
	dialer    net.Dialer
}

func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := g.dialer
	d.Control = func(_, to string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(to)
		switch {
		case err != nil || g.proxied || !isPrivateHost(host):
			return err
		case address == g.registry:
			g.isPrivate.Store(true)
		case !g.isPrivate.Load():
			return fmt.Errorf("%w: %s, to which %s redirects, has %s, an address of this network", ErrHostile,
				address, g.registry, host)
		}
		return nil
	}
	return d.DialContext(ctx, network, address)
}

// newGuard returns the guard for a registry. It adds the usual port if the registry's address has
// none.
func newGuard(repo name.Repository, patience time.Duration) *guard {
	host := repo.RegistryStr()
	to := &url.URL{Scheme: repo.Scheme(), Host: host, Path: "/v2/"}
	if to.Port() == "" {
		host = net.JoinHostPort(to.Hostname(), map[string]string{"http": "80", "https": "443"}[to.Scheme])
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: to})
	return &guard{registry: host, proxied: proxy != nil || err != nil, dialer: net.Dialer{Timeout: patience}}
}

// isPrivateHost reports whether a host is an address that does not exist on the Internet.
func isPrivateHost(host string) bool {
	address, err := netip.ParseAddr(host)
	address = address.Unmap()
	private := address.IsPrivate() || address.IsLinkLocalUnicast() || address.IsUnspecified()
	return isLoopback(host) || err == nil && private
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && address.Unmap().IsLoopback()
}

// watchedBody is an answer's body that must keep making progress.
type watchedBody struct {
	io.ReadCloser
	ctx    context.Context // of this one exchange
	cancel context.CancelCauseFunc
	got    atomic.Int64 // bytes since the last check
}

// watch ends an exchange that makes no progress. It returns when the exchange ends.
func (b *watchedBody) watch(idle time.Duration) {
	look := time.NewTicker(idle)
	defer look.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-look.C:
			if b.got.Swap(0) < minProgress {
				b.cancel(errStalled)
			}
		}
	}
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.got.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.cause(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// cause returns why the exchange was ended, if that is why err occurred; otherwise err.
func (b *watchedBody) cause(err error) error {
	if cause := context.Cause(b.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}
