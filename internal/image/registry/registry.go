package registry

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Options slow a registry down. With the zero value it is as fast as it can be.
type Options struct {
	Latency       time.Duration // before each answer
	Bandwidth     float64       // bytes of blobs per second, total; 0 = no limit
	PerConnection float64       // the same for each connection
}

// A Registry serves its offers. It is an http.Handler, so that tests can wrap it.
type Registry struct {
	options  Options
	listener net.Listener
	server   http.Server
	shared   *rateLimiter // of all connections together

	mu     sync.Mutex
	offers map[string]*Offer // by repository
}

// sendBuffer limits the unread bytes of a connection in the kernel, so that sent bytes have almost
// arrived.
const sendBuffer = 256 << 10

// Listen starts a registry on a free port of loopback. It serves until Close.
func Listen(o Options) (*Registry, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Registry{options: o, listener: l, shared: newRateLimiter(o.Bandwidth), offers: map[string]*Offer{}}
	r.server = http.Server{Handler: r, ReadHeaderTimeout: time.Minute, ConnContext: r.connected, ErrorLog: discardLog()}
	go func() { _ = r.server.Serve(l) }() // until Close
	return r, nil
}

// Address is where it listens, "127.0.0.1:PORT".
func (r *Registry) Address() string { return r.listener.Addr().String() }

// Close ends the registry and all requests.
func (r *Registry) Close() error {
	err := r.server.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// connectionLimiter finds a connection's own rateLimiter in a request's context.
type connectionLimiter struct{}

func (r *Registry) connected(ctx context.Context, c net.Conn) context.Context {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // if it fails, the sent bytes are known less exactly
	}
	return context.WithValue(ctx, connectionLimiter{}, newRateLimiter(r.options.PerConnection))
}

// An Offer is a content that is served under a name, with a count of what was sent.
type Offer struct {
	registry *Registry
	name     string
	content  *Content
	clock    func() time.Duration
	serving  sync.WaitGroup // requests

	mu      sync.Mutex
	traffic Traffic
	sent    map[string][]extent // by digest of blobs
}

// Traffic is what clients requested from an Offer and got.
type Traffic struct {
	First, Last time.Duration // first request, last byte passed to the kernel, by the offer's clock; 0 = none
	Requests    int
	Bytes       int64 // of blobs and manifests
	// Missing is the number of bytes of blobs that nobody has fetched.
	Missing int64
}

// Offer serves a content under a repository's name until it is withdrawn. It replaces an earlier
// content there.
func (r *Registry) Offer(name string, c *Content, clock func() time.Duration) *Offer {
	o := &Offer{registry: r, name: name, content: c, clock: clock, sent: map[string][]extent{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offers[name] = o
	return o
}

// Reference is the reference that an engine pulls.
func (o *Offer) Reference() string { return o.At(o.registry.Address()) }

// At is the reference of the same content at another address.
func (o *Offer) At(address string) string { return address + "/" + o.name + ":" + o.content.id }

// settleTime is how long Withdraw waits for unfinished requests.
const settleTime = time.Second

// Withdraw ends the offer, and returns what was sent. The reader of the last byte may be ahead of
// its sender, so Withdraw gives unfinished requests a moment to be counted.
func (o *Offer) Withdraw() Traffic {
	r := o.registry
	r.mu.Lock()
	if r.offers[o.name] == o {
		delete(r.offers, o.name)
	}
	r.mu.Unlock()
	o.settle()
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.traffic
	for digest, b := range o.content.blobs {
		t.Missing += b.size() - coveredBytes(o.sent[digest])
	}
	return t
}

func (o *Offer) settle() {
	done := make(chan struct{})
	go func() { o.serving.Wait(); close(done) }()
	late := time.NewTimer(settleTime)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C: // a client that has stopped reading
	}
}

func (o *Offer) addRequest() {
	now := o.clock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.traffic.Requests == 0 {
		o.traffic.First = now
	}
	o.traffic.Requests++
}

// An extent is bytes of a blob.
type extent struct{ from, to int64 }

// coveredBytes is how many bytes are in at least one extent: a client may request bytes twice, or
// several parts at once.
func coveredBytes(all []extent) (bytes int64) {
	slices.SortFunc(all, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	end := int64(0)
	for _, e := range all {
		bytes += max(0, e.to-max(e.from, end))
		end = max(end, e.to)
	}
	return bytes
}

// addSent notes that n bytes of a blob, or of the manifest, were sent, starting at from.
func (o *Offer) addSent(digest string, from, n int64) {
	now := o.clock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.traffic.Bytes += n
	if _, isBlob := o.content.blobs[digest]; isBlob {
		o.sent[digest] = append(o.sent[digest], extent{from, from + n})
		o.traffic.Last = max(o.traffic.Last, now)
	}
}

// serve returns the offer with a name, or nil. The request must call done at its end.
func (r *Registry) serve(name string) (o *Offer, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o = r.offers[name]; o == nil {
		return nil, func() {}
	}
	o.serving.Add(1)
	o.addRequest()
	return o, o.serving.Done
}
