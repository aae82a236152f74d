package remote

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/stdstream"
	"github.com/tare-bench/tare/internal/remote"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// A container is a container on the other machine. It exists only as long as the session that made
// it.
type container struct {
	session *peer.Session
	number  uint64
	id      string

	mu      sync.Mutex
	output  *output // nil unless attached
	removed bool
}

// An output is the copying of a container's output.
type output struct {
	stop context.CancelFunc
	done chan struct{} // closed when err is set and copying has ended
	err  error
}

func (c *container) call(ctx context.Context, op string, r remote.Request, out any) error {
	r.Container = c.number
	return c.session.Call(ctx, op, r, out)
}

// ID implements bench.Container.
func (c *container) ID() string { return c.id }

// Attach implements bench.Container.
func (c *container) Attach(ctx context.Context, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.session.Stream(ctx, remote.OpAttach,
		remote.Request{Container: c.number, Stdout: stdout != nil, Stderr: stderr != nil})
	if err != nil {
		cancel()
		return err
	}
	o := &output{stop: cancel, done: make(chan struct{})}
	c.mu.Lock()
	c.output = o
	c.mu.Unlock()
	go func() {
		defer close(o.done)
		defer cancel()
		o.err = errors.Join(stdstream.Copy(stdout, stderr, stream), stream.Close())
		if ctx.Err() != nil {
			o.err = nil // the caller ended it
		}
	}()
	return nil
}

// Inspect implements bench.Container.
func (c *container) Inspect(ctx context.Context) (applied bench.Applied, err error) {
	err = c.call(ctx, remote.OpInspect, remote.Request{}, &applied)
	return applied, err
}

// Start implements bench.Container.
func (c *container) Start(ctx context.Context) error {
	return c.call(ctx, remote.OpStart, remote.Request{}, nil)
}

// Wait implements bench.Container. It returns when all output has arrived.
func (c *container) Wait(ctx context.Context) (exit bench.Exit, err error) {
	if err := c.call(ctx, remote.OpWait, remote.Request{}, &exit); err != nil {
		return bench.Exit{}, err
	}
	c.mu.Lock()
	o := c.output
	c.mu.Unlock()
	if o == nil {
		return exit, nil
	}
	select {
	case <-o.done:
		return exit, o.err
	case <-ctx.Done():
		return bench.Exit{}, ctx.Err()
	}
}

// Remove implements bench.Container.
func (c *container) Remove(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return nil
	}
	if err := c.remove(ctx); err != nil {
		return err
	}
	c.removed = true
	if c.output != nil {
		c.output.stop()
	}
	return nil
}

func (c *container) remove(ctx context.Context) error {
	return c.call(ctx, remote.OpRemove, remote.Request{}, nil)
}
