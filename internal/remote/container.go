package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/tare-bench/tare/internal/bench"
)

// A container is one that a client has asked for, or asked to be removed.
type container struct {
	ctx    context.Context // ends when it is to be removed
	cancel context.CancelFunc

	making sync.Mutex // held while it is made or removed
	asked  bool
	gone   bool

	mu     sync.Mutex // protects what follows
	engine bench.Engine
	made   bench.Container // nil before and after
	spec   bench.Spec
	output *output

	once  sync.Once
	ended chan struct{} // closed when somebody has waited for its end
}

func newContainer(ctx context.Context) *container {
	c := &container{ended: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

var (
	errState = errors.New("not possible in this state")
	errTwice = errors.New("the number of a container was used twice")
)

// create makes it. When ctx ends, or it is to be removed, it is not made.
func (c *container) create(ctx context.Context, e bench.Engine, spec bench.Spec) (string, error) {
	c.making.Lock()
	defer c.making.Unlock()
	if c.asked {
		return "", errTwice
	}
	c.asked = true
	if c.gone {
		return "", context.Canceled
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	made, err := e.Create(ctx, spec)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engine, c.made, c.spec = e, made, spec
	return made.ID(), nil
}

// remove removes it, whatever it is at. It returns its ID, if there was one, and
// whether it had been asked for.
func (c *container) remove(ctx context.Context) (id string, asked bool, err error) {
	c.cancel()
	c.making.Lock()
	defer c.making.Unlock()
	c.gone = true
	c.mu.Lock()
	made, out := c.made, c.output
	c.mu.Unlock()
	if out != nil {
		out.stop() // what prints must not wait for who does not read any more
	}
	if made == nil {
		return "", c.asked, nil
	}
	if err := made.Remove(ctx); err != nil {
		return "", c.asked, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = nil
	return made.ID(), c.asked, nil
}

// now returns what there is of it.
func (c *container) now() (bench.Container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		return nil, fmt.Errorf("there is no such container: %w", errState)
	}
	return c.made, nil
}

// inspect reads back what was applied.
func (c *container) inspect(ctx context.Context) (bench.Applied, error) {
	made, err := c.now()
	if err != nil {
		return bench.Applied{}, err
	}
	return made.Inspect(ctx)
}

// start starts it.
func (c *container) start(ctx context.Context) error {
	made, err := c.now()
	if err != nil {
		return err
	}
	return made.Start(ctx)
}

// wait waits for its end. Nothing does unless the client asks: some engines ask
// their daemon again and again.
func (c *container) wait(ctx context.Context) (bench.Exit, error) {
	made, err := c.now()
	if err != nil {
		return bench.Exit{}, err
	}
	exit, err := made.Wait(ctx)
	if err == nil {
		c.once.Do(func() { close(c.ended) })
	}
	return exit, err
}

// attach sends what it prints until the client, by wait, knows that it has ended:
// everything is sent then. An error is returned only before anything was sent.
func (c *container) attach(w http.ResponseWriter, r *http.Request, ask Request) error {
	made, err := c.now()
	if err != nil {
		return err
	}
	out := newOutput(w)
	defer out.close()
	// The engine may go on with it as long as the container runs.
	if err := made.Attach(r.Context(), out.stream(ask.Stdout, 1), out.stream(ask.Stderr, 2)); err != nil {
		return err
	}
	c.mu.Lock()
	c.output = out
	c.mu.Unlock()
	if err := out.begin(); err != nil {
		return nil // the client is gone
	}
	select {
	case <-c.ended: // everything is sent
	case <-c.ctx.Done():
		out.stop()
	case <-r.Context().Done():
		out.stop()
	}
	return nil
}

// addresser returns what knows the address of a container.
func (c *container) addresser() (bench.Addresser, bench.Container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		return nil, nil, fmt.Errorf("there is no such container: %w", errState)
	}
	a, ok := bench.As[bench.Addresser](c.engine)
	if !ok {
		return nil, nil, fmt.Errorf("%w: engine %s does not tell the addresses of its containers", bench.ErrUnsupported, c.engine.Name())
	}
	return a, c.made, nil
}

// address is the port of this machine by which a client elsewhere reaches a port
// of the container. What the machine's address is, the client knows best.
func (c *container) address(ctx context.Context, p bench.Port) (uint16, error) {
	a, made, err := c.addresser()
	if err != nil {
		return 0, err
	}
	at, err := a.Address(ctx, made, p)
	if err != nil {
		return 0, err
	}
	return at.Port(), nil
}

// path is what a packet from the client passes on this machine.
func (c *container) path(ctx context.Context, p bench.Port) ([]string, error) {
	a, made, err := c.addresser()
	if err != nil {
		return nil, err
	}
	return a.Path(ctx, made, p)
}
