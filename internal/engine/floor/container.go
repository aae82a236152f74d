package floor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/stdstream"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// errState means that an operation came too early or too late in a container's life.
var errState = errors.New("not possible in the container's present state")

// A container is a process in namespaces. It may be incomplete: Remove removes whatever exists.
type container struct {
	id     string
	run    string
	plan   plan
	dir    string            // with upper, work and root, or root alone
	copied bool              // the root is a copy of the image, not an overlay
	data   *datadir.Dir      // on the host; nil if the spec needs none
	groups *cgroup.Hierarchy // nil without a group
	group  string

	network *netdev.Network
	address netip.Addr // on that; invalid if the container is not on it

	childFiles      descriptors
	control, report *os.File
	output          [2]*os.File  // of stdout and stderr
	ready           agent.Report // init's report when it was ready

	process *os.Process   // nil until there is one
	frozen  atomic.Bool   // Pause may have stopped the processes
	exited  chan struct{} // closed when exit and err are set
	exit    bench.Exit
	err     error

	mu      sync.Mutex
	outputs [2]io.Writer // where output goes; nil discards
	started bool
	removed bool
	copying sync.WaitGroup
}

// descriptors are the ends of the pipes that init gets.
type descriptors struct{ stdin, stdout, stderr, control, report *os.File }

func (d *descriptors) close() {
	closeAll(d.stdin, d.stdout, d.stderr, d.control, d.report)
}

// closeAll closes the files that are open. Writes are not buffered, so closing cannot lose data.
// Closing twice does nothing.
func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // see above
		}
	}
}

// ID implements bench.Container.
func (c *container) ID() string { return c.id }

// Attach implements bench.Container.
func (c *container) Attach(_ context.Context, stdout, stderr io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.removed {
		return fmt.Errorf("attach to %s: %w", c.id, errState)
	}
	c.outputs[0], c.outputs[1] = bench.Outputs(stdout, stderr)
	return nil
}

// Start implements bench.Container: it sends one byte, and returns when init
// has executed the program.
func (c *container) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.started || c.removed {
		return fmt.Errorf("start %s: %w", c.id, errState)
	}
	c.started = true
	for i, from := range c.output {
		to := c.outputs[i]
		c.copying.Go(func() { stdstream.Drain(to, from) })
	}
	if _, err := c.control.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("start %s: %w", c.id, err)
	}
	if _, err := c.readReport(ctx); err != nil {
		return fmt.Errorf("start %s: %w", c.id, err)
	}
	return nil
}

// reap waits for the end of the first process, and so of all processes: the kernel kills the
// others, and reports the first one's end when none is left.
func (c *container) reap() {
	defer close(c.exited)
	state, err := c.process.Wait()
	if err != nil {
		c.err = fmt.Errorf("wait for %s: %w", c.id, err)
		return
	}
	c.exit = bench.ExitOf(state)
	if c.exit.Signal == int(syscall.SIGKILL) && c.groups != nil {
		stat, err := c.groups.Stat(c.group)
		c.exit.OOM = err == nil && stat.OOMKills > 0
	}
}

// Wait implements bench.Container.
func (c *container) Wait(ctx context.Context) (bench.Exit, error) {
	c.mu.Lock()
	started := c.started
	c.mu.Unlock()
	if !started {
		return bench.Exit{}, fmt.Errorf("wait for %s: %w", c.id, errState)
	}
	copied := make(chan struct{})
	go func() {
		<-c.exited
		c.copying.Wait()
		close(copied)
	}()
	select {
	case <-copied:
		return c.exit, c.err
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
	if err := c.kill(ctx); err != nil {
		return fmt.Errorf("remove %s: %w", c.id, err)
	}
	c.childFiles.close()
	closeAll(c.control, c.report)
	closeAll(c.output[:]...)
	if c.groups != nil {
		if err := c.groups.Remove(ctx, c.group); err != nil {
			return fmt.Errorf("remove %s: %w", c.id, err)
		}
	}
	if err := errors.Join(os.RemoveAll(c.dir), c.data.Remove()); err != nil {
		return fmt.Errorf("remove %s: %w", c.id, err)
	}
	c.removed = true
	c.network.Leave(c.address)
	return nil
}

// kill kills the first process; all others die with it.
func (c *container) kill(ctx context.Context) error {
	if c.process == nil {
		return nil
	}
	if err := c.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if c.frozen.Load() {
		// On version 1 a frozen process does not notice the signal.
		if err := c.groups.Thaw(ctx, c.group); err != nil {
			return err
		}
	}
	select {
	case <-c.exited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
