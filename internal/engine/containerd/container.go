package containerd

import (
	"context"
	"io"
	"net/netip"
	"sync"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
)

// running is a container with its task, from its creation to its removal.
type running struct {
	engine  *Engine
	server  *server
	id      string
	image   *unpacked
	runtime runtime
	spec    bench.Spec
	data    *datadir.Dir   // of the host; nil where none was asked for
	process *specs.Process // the first one, as it was asked for
	address netip.Addr     // on the engine's bridge; invalid where it is not on it

	container containerd.Container
	task      containerd.Task
	output    *output

	stdout, stderr io.Writer // where Attach wants the output; nil discards

	unwatch context.CancelFunc
	ended   chan struct{} // closed when exit and waitErr are set
	exit    bench.Exit
	waitErr error

	mu      sync.Mutex // guards what follows
	applied *bench.Applied
	paused  bool
	tried   bool // to be removed: from then on it is cleaned up
	removed bool
}

func (c *running) ID() string { return c.id }

// watch asks to be told of the exit of the first process, before it can exit.
func (c *running) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	c.unwatch = cancel
	told, err := c.task.Wait(ctx)
	if err != nil {
		c.waitErr = err
		close(c.ended)
		return
	}
	go c.await(told)
}

// await takes the exit status of the first process.
func (c *running) await(told <-chan containerd.ExitStatus) {
	defer close(c.ended)
	code, _, err := (<-told).Result()
	if err != nil {
		c.waitErr = err
		return
	}
	c.exit.Code = int(code)
	if code == 128+uint32(syscall.SIGKILL) {
		stat, err := c.server.groups.Stat(groupOf(c.engine.cfg.Run, c.id))
		c.exit.OOM = err == nil && stat.OOMKills > 0
	}
}

// Attach says where the output goes. It is copied from Start on.
func (c *running) Attach(_ context.Context, stdout, stderr io.Writer) error {
	c.stdout, c.stderr = stdout, stderr
	return nil
}

// Start leaves what the process prints in its FIFOs until containerd has
// answered.
func (c *running) Start(ctx context.Context) error {
	err := c.task.Start(ctx)
	c.output.copy(c.stdout, c.stderr)
	return c.failed("start", bench.Because(ctx, err))
}

func (c *running) Wait(ctx context.Context) (bench.Exit, error) {
	select {
	case <-c.ended:
	case <-ctx.Done():
		return bench.Exit{}, c.failed("wait", context.Cause(ctx))
	}
	if c.waitErr != nil {
		return bench.Exit{}, c.failed("wait", c.waitErr)
	}
	c.output.copy(c.stdout, c.stderr)
	if err := c.output.wait(ctx); err != nil {
		return bench.Exit{}, c.failed("wait for the output", err)
	}
	return c.exit, nil
}

// Remove deletes the task, then the container with its snapshot. What cannot be
// deleted like that, such as a task whose shim is gone, the next call removes with
// more effort.
func (c *running) Remove(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return nil
	}
	if !c.tried {
		c.tried = true
		if err := c.delete(ctx); err != nil {
			return c.failed("remove", bench.Because(ctx, err))
		}
	} else if err := c.engine.erase(ctx, c.server, c.engine.cfg.Run, c.id, c.image.key.snapshotter); err != nil {
		return err
	}
	if err := c.data.Remove(); err != nil {
		return c.failed("remove", err)
	}
	c.removed = true
	c.engine.network.Leave(c.address)
	c.unwatch()
	c.output.close()
	return nil
}

// delete removes the container with the calls that this takes and no other.
func (c *running) delete(ctx context.Context) error {
	if err := c.end(ctx); err != nil {
		return err
	}
	if _, err := c.task.Delete(ctx); err != nil {
		return err
	}
	return c.container.Delete(ctx, containerd.WithSnapshotCleanup)
}

// end kills the first process, and with it all others in its PID namespace,
// unless it has ended.
func (c *running) end(ctx context.Context) error {
	select {
	case <-c.ended:
		return c.waitErr
	default:
	}
	if c.paused { // what is frozen cannot die
		if err := c.task.Resume(ctx); err != nil {
			return err
		}
		c.paused = false
	}
	if err := c.task.Kill(ctx, syscall.SIGKILL); err != nil && !gone(err) {
		return err
	}
	limit := time.NewTimer(killLimit)
	defer limit.Stop()
	select {
	case <-c.ended:
		return c.waitErr
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-limit.C:
		return errKill
	}
}

// failed says which call failed for this container; nil if none did.
func (c *running) failed(call string, err error) error {
	if err == nil {
		return nil
	}
	return c.engine.failed(call+" "+c.id, err)
}
