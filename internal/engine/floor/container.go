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
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// errState is wrapped by the errors of operations that come too early or too late.
var errState = errors.New("not possible in this state")

// A container is a process in namespaces. It may be half made: Remove takes
// away whatever there is.
type container struct {
	id     string
	run    string
	plan   plan
	dir    string            // with upper, work and root, or root alone
	copied bool              // the root is a copy of the image, not an overlay
	data   *datadir.Dir      // of the host; nil where none was asked for
	groups *cgroup.Hierarchy // nil where there is no group
	group  string

	network *netdev.Network
	address netip.Addr // on that; invalid where it is not on it

	theirs          descriptors
	control, report *os.File
	output          [2]*os.File  // of stdout and stderr
	ready           agent.Report // what init said when it was

	process *os.Process   // nil until there is one
	frozen  atomic.Bool   // Pause may have stopped the processes
	exited  chan struct{} // closed when exit and err are set
	exit    bench.Exit
	err     error

	mu      sync.Mutex
	to      [2]io.Writer // what output goes to; nil to discard
	started bool
	removed bool
	copying sync.WaitGroup
}

// descriptors are the ends of pipes that init gets.
type descriptors struct{ stdin, stdout, stderr, control, report *os.File }

func (d *descriptors) close() {
	closeAll(d.stdin, d.stdout, d.stderr, d.control, d.report)
}

// closeAll closes what is open. Nothing is written through a buffer, so
// nothing can go wrong; closing twice does nothing.
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
	c.to[0], c.to[1] = bench.Outputs(stdout, stderr)
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
		to := c.to[i]
		c.copying.Go(func() { carry(to, from) })
	}
	if _, err := c.control.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("start %s: %w", c.id, err)
	}
	if _, err := c.readReport(ctx); err != nil {
		return fmt.Errorf("start %s: %w", c.id, err)
	}
	return nil
}

// chunk is how much is copied at once: half of what a pipe holds.
const chunk = 32 << 10

// carry copies what a container prints until its last process has ended. It
// goes on reading when there is no writer, or none any more, so that the
// container is not stopped by a full pipe.
func carry(to io.Writer, from *os.File) {
	buf := make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		if to != nil && n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				to = nil
			}
		}
		if err != nil {
			return
		}
	}
}

// reap sees the first process to its end, and with it all others: the kernel
// kills them, and tells of the first one's end when none is left.
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
	c.theirs.close()
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

// kill ends the first process, and so all of them.
func (c *container) kill(ctx context.Context) error {
	if c.process == nil {
		return nil
	}
	if err := c.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if c.frozen.Load() {
		// On version 1 it would not notice.
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
