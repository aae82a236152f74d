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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What a registry is asked for.
const (
	manifests = "manifests"
	blobs     = "blobs"
)

// errStalled is how an exchange with a registry ends that does not move.
var errStalled = errors.New("the registry has stopped answering")

// errPlain refuses to send anything, a password perhaps, where anybody can read it.
var errPlain = errors.New("plain HTTP is only for a registry of this host, at localhost or 127.0.0.1")

// patience is how long a registry is waited for.
type patience struct {
	idle  time.Duration // in which at least leastProgress must arrive
	pause time.Duration // before the second attempt; three times that before the third
}

// errSlow is how an exchange ends that moves, but not in any time that makes sense.
var errSlow = errors.New("the registry is too slow")

// leastRate is the slowest at which a layer may arrive, in bytes per second: a
// slow line of today brings ten times as much.
const leastRate = 32 << 10

// within bounds an exchange of so many bytes, 0 for a small document, all of its
// attempts together.
func (p patience) within(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	limit := 8*p.idle + time.Duration(size/leastRate)*time.Second
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: what it was asked for is not there after %v", errSlow, limit))
}

// leastProgress is less than the slowest line brings while patience lasts. A
// registry that sends a byte now and then would never end otherwise.
const leastProgress = 4 << 10

const attempts = 3

// retry does something that can be done again as often as it seems worth it.
func (p patience) retry(ctx context.Context, do func() error) error {
	pause := p.pause
	for n := 1; ; n++ {
		err := do()
		if err == nil || n == attempts || !passing(err) || ctx.Err() != nil {
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

// passing reports whether an error may be gone next time.
func passing(err error) bool {
	var status *transport.Error
	if errors.As(err, &status) {
		return status.StatusCode == http.StatusTooManyRequests || status.StatusCode >= 500
	}
	var network net.Error
	return errors.Is(err, errStalled) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &network) && network.Timeout()
}

// A line is how a registry is spoken to: with the credentials that it wants.
type line struct {
	client *http.Client
	base   *http.Transport
}

// hangUp closes what is open to the registry.
func (r *registry) hangUp() {
	if r.line != nil {
		r.line.base.CloseIdleConnections()
	}
}

// get asks for a document or a layer.
func (r *registry) get(ctx context.Context, kind, id string) (*http.Response, error) {
	if err := r.connect(ctx); err != nil {
		return nil, err
	}
	address := fmt.Sprintf("%s://%s/v2/%s/%s/%s", r.repo.Scheme(), r.repo.RegistryStr(), r.repo.RepositoryStr(), kind, id)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if kind == manifests {
		request.Header.Set("Accept", acceptable())
	}
	answer, err := r.line.client.Do(request)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(answer, http.StatusOK); err != nil {
		_ = answer.Body.Close() // only read from
		return nil, err
	}
	return answer, nil
}

func acceptable() string {
	var all []string
	for _, t := range []types.MediaType{types.OCIImageIndex, types.DockerManifestList, types.OCIManifestSchema1, types.DockerManifestSchema2} {
		all = append(all, string(t))
	}
	return strings.Join(all, ",")
}

// connect finds out what the registry wants to know of its clients.
func (r *registry) connect(ctx context.Context) error {
	if r.line != nil {
		return nil
	}
	who, err := credentials(ctx, r.repo, r.patience.idle)
	if err != nil {
		return err
	}
	base := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            newGuard(r.repo, r.patience.idle/3).dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    r.patience.idle / 3,
		IdleConnTimeout:        r.patience.idle,
		MaxResponseHeaderBytes: 1 << 20,
	}
	through := transport.NewUserAgent(watched{base, r.patience.idle}, "tare")
	through, err = transport.NewWithContext(ctx, r.repo.Registry, who, through, []string{r.repo.Scope(transport.PullScope)})
	if err != nil {
		base.CloseIdleConnections()
		return err
	}
	r.line = &line{&http.Client{Transport: through, CheckRedirect: checkRedirect}, base}
	return nil
}

// credentials asks the usual configuration of Docker, and what programs it
// names, which may never answer.
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
		return nil, fmt.Errorf("credentials for %s, from Docker's config.json or a helper that it names: %w", repo.RegistryStr(), a.err)
	}
	return a.who, nil
}

// checkRedirect keeps a registry from sending us to machines that only this one
// can reach.
func checkRedirect(request *http.Request, via []*http.Request) error {
	const most = 10
	if len(via) >= most {
		return fmt.Errorf("more than %d redirections", most)
	}
	from, to := via[0].URL, request.URL
	switch {
	case to.Host == from.Host:
		return nil
	case isLoopback(to.Hostname()):
		return fmt.Errorf("%w: redirection from %s to %s, another service of this machine", ErrHostile, from.Host, to.Host)
	case inner(to.Hostname()) && !inner(from.Hostname()):
		return fmt.Errorf("%w: redirection from %s to %s, an address of this network", ErrHostile, from.Host, to.Host)
	}
	return nil
}

// A guard keeps names from meaning what checkRedirect would refuse: a registry of
// the Internet sends nobody to an address of this network, by whatever name.
type guard struct {
	registry string // host and port; as a proxy or the registry itself is dialled, no guard is needed
	proxied  bool
	inside   atomic.Bool // the registry itself is of this network
	dialer   net.Dialer
}

func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := g.dialer
	d.Control = func(_, to string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(to)
		switch {
		case err != nil || g.proxied || !inner(host):
			return err
		case address == g.registry:
			g.inside.Store(true)
		case !g.inside.Load():
			return fmt.Errorf("%w: %s is sent by %s to %s, an address of this network", ErrHostile, address, g.registry, host)
		}
		return nil
	}
	return d.DialContext(ctx, network, address)
}

// newGuard returns the guard for a registry, whose address is asked for without a
// port where that is the usual one.
func newGuard(repo name.Repository, patience time.Duration) *guard {
	host := repo.RegistryStr()
	to := &url.URL{Scheme: repo.Scheme(), Host: host, Path: "/v2/"}
	if to.Port() == "" {
		host = net.JoinHostPort(to.Hostname(), map[string]string{"http": "80", "https": "443"}[to.Scheme])
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: to})
	return &guard{registry: host, proxied: proxy != nil || err != nil, dialer: net.Dialer{Timeout: patience}}
}

// inner reports whether a host is an address that the Internet does not have.
func inner(host string) bool {
	address, err := netip.ParseAddr(host)
	return isLoopback(host) || err == nil && (address.Unmap().IsPrivate() || address.Unmap().IsLinkLocalUnicast() || address.IsUnspecified())
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && address.Unmap().IsLoopback()
}

// watched ends exchanges that do not move, and refuses to speak plainly.
type watched struct {
	next http.RoundTripper
	idle time.Duration
}

// RoundTrip implements http.RoundTripper.
func (w watched) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme == "http" && !isLoopback(request.URL.Hostname()) {
		return nil, fmt.Errorf("%s: %w", request.URL.Host, errPlain)
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	b := &watchedBody{ctx: ctx, cancel: cancel, idle: w.idle}
	b.watch()
	answer, err := w.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		b.timer.Stop()
		defer cancel(nil)
		return nil, b.cause(err)
	}
	b.got.Add(leastProgress) // the answer has begun
	b.ReadCloser, answer.Body = answer.Body, b
	return answer, nil
}

// watchedBody is an answer that must keep coming.
type watchedBody struct {
	io.ReadCloser
	ctx    context.Context // of this one exchange
	cancel context.CancelCauseFunc
	idle   time.Duration
	got    atomic.Int64 // since the last look

	mu    sync.Mutex // the timer may fire before it is kept
	timer *time.Timer
}

func (b *watchedBody) watch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(b.idle, b.look)
}

func (b *watchedBody) look() {
	if b.got.Swap(0) < leastProgress {
		b.cancel(errStalled)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer.Reset(b.idle)
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
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// cause says why an exchange has ended, if not by itself.
func (b *watchedBody) cause(err error) error {
	if cause := context.Cause(b.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}
