package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// fakeDigest is the image of every container of a Fake.
const fakeDigest = "sha256:fa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4efa4e"

// errOrder means that a call came in the wrong order.
var errOrder = errors.New("called too early, too late or twice")

// A fakeContainer is a container of a Fake.
type fakeContainer struct {
	fake   *Fake
	number int
	spec   bench.Spec

	mu                         sync.Mutex
	out, errOut                io.Writer
	attached, started, removed bool
	thawed                     chan struct{} // closed unless the container is paused

	term   signal // SIGTERM, to the first process
	kill   signal // SIGKILL, by Signal, Stop or Remove
	exited chan struct{}
	exit   bench.Exit // set when exited is closed
}

func newFakeContainer(f *Fake, number int, spec bench.Spec) *fakeContainer {
	c := &fakeContainer{
		fake: f, number: number, spec: spec, term: newSignal(), kill: newSignal(), exited: make(chan struct{}),
		thawed: make(chan struct{}),
	}
	close(c.thawed)
	return c
}

// A signal is sent once; sending it again does nothing.
type signal struct {
	sent chan struct{} // closed by send
	once *sync.Once
}

func newSignal() signal { return signal{make(chan struct{}), new(sync.Once)} }

func (s signal) send() { s.once.Do(func() { close(s.sent) }) }

func (c *fakeContainer) ID() string { return fmt.Sprintf("%s-%d", c.fake.config.Name, c.number) }

func (c *fakeContainer) Attach(ctx context.Context, stdout, stderr io.Writer) error {
	if err := c.fake.do(ctx, OpAttach, c.number); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached || c.started || c.removed {
		return fmt.Errorf("attach to %s: %w", c.ID(), errOrder)
	}
	c.attached, c.out, c.errOut = true, stdout, stderr
	return nil
}

func (c *fakeContainer) Inspect(ctx context.Context) (bench.Applied, error) {
	if err := c.fake.do(ctx, OpInspect, c.number); err != nil {
		return bench.Applied{}, err
	}
	a := bench.Applied{
		Image: fakeDigest, Argv: slices.Clone(c.argv()), Network: c.spec.Network,
		Mounts: slices.Clone(c.spec.Mounts), Limits: c.spec.Limits, Security: c.spec.Security,
	}
	if a.Network == "" {
		a.Network = "none"
	}
	if c.spec.Storage != "" {
		a.Data = c.spec.Storage + " fakefs"
	}
	if c.fake.config.Applied != nil {
		c.fake.config.Applied(&a)
	}
	return a, nil
}

// argv is the program. It is "mark", as in the agent's image, if the Spec names none.
func (c *fakeContainer) argv() []string {
	if len(c.spec.Argv) == 0 {
		return []string{agent.Path, "mark"}
	}
	return c.spec.Argv
}

func (c *fakeContainer) Start(ctx context.Context) error {
	if err := c.fake.do(ctx, OpStart, c.number); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.removed {
		return fmt.Errorf("start %s: %w", c.ID(), errOrder)
	}
	if c.argv()[0] != agent.Path {
		return fmt.Errorf("start %s: %q: %w", c.ID(), c.argv()[0], fs.ErrNotExist)
	}
	c.started = true
	go func() {
		defer close(c.exited)
		p := program{c: c, out: c.out, errOut: c.errOut, term: c.term.sent, end: c.kill.sent}
		c.exit = p.run(c.argv()[1:])
	}()
	return nil
}

func (c *fakeContainer) Wait(ctx context.Context) (bench.Exit, error) {
	if err := c.fake.do(ctx, OpWait, c.number); err != nil {
		return bench.Exit{}, err
	}
	c.mu.Lock()
	started := c.started
	c.mu.Unlock()
	if !started {
		return bench.Exit{}, fmt.Errorf("wait for %s: %w", c.ID(), errOrder)
	}
	select {
	case <-c.exited:
		return c.exit, nil
	case <-ctx.Done():
		return bench.Exit{}, ctx.Err()
	}
}

func (c *fakeContainer) Remove(ctx context.Context) error {
	if err := c.fake.do(ctx, OpRemove, c.number); err != nil {
		return err
	}
	c.mu.Lock()
	c.removed = true
	started := c.started
	c.mu.Unlock()
	c.kill.send()
	if started {
		<-c.exited
	}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	delete(c.fake.live, c)
	return nil
}
