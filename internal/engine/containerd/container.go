package containerd

import (
	"context"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
)

// container is a container with its task, from its creation to its removal.
type container struct {
	engine  *Engine
	server  *server
	id      string
	image   *unpacked
	runtime runtime
	spec    bench.Spec
	data    *datadir.Dir   // on the host; nil if the spec needs none
	process *specs.Process // the first process, as requested
	address netip.Addr     // on the engine's bridge; invalid if the container is not on it

	container containerd.Container
	task      containerd.Task
	output    *output

	stdout, stderr io.Writer // from Attach; nil discards

	stopWatch context.CancelFunc
	ended     chan struct{} // closed when exit and waitErr are set
	exit      bench.Exit
	waitErr   error

	paused atomic.Bool // Pause may have stopped the processes

	mu       sync.Mutex // guards what follows
	applied  *bench.Applied
	removing bool // Remove was called; the next call cleans up whatever is left
	removed  bool
}

func (c *container) ID() string { return c.id }

// watch subscribes to the exit of the first process, before the process can exit.
func (c *container) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stopWatch = cancel
	told, err := c.task.Wait(ctx)
	if err != nil {
		c.waitErr = err
		close(c.ended)
		return
	}
	go c.await(told)
}

// await receives the exit status of the first process.
func (c *container) await(told <-chan containerd.ExitStatus) {
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

// Attach says where the output goes. Copying begins with Start.
func (c *container) Attach(_ context.Context, stdout, stderr io.Writer) error {
	c.stdout, c.stderr = stdout, stderr
	return nil
}

// Start starts the task. Output stays in the FIFOs until containerd has answered, so that copying
// takes no time from Start.
func (c *container) Start(ctx context.Context) error {
	err := c.task.Start(ctx)
	c.output.copy(c.stdout, c.stderr)
	return c.failed("start", bench.Because(ctx, err))
}

func (c *container) Wait(ctx context.Context) (bench.Exit, error) {
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

// Remove deletes the task, then the container with its snapshot. If that fails, as for a task whose
// shim is gone, the next call makes every effort.
func (c *container) Remove(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return nil
	}
	if !c.removing {
		c.removing = true
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
	c.stopWatch()
	c.output.close()
	return nil
}

// delete removes the container with exactly the calls that are necessary.
func (c *container) delete(ctx context.Context) error {
	if err := c.end(ctx); err != nil {
		return err
	}
	if _, err := c.task.Delete(ctx); err != nil {
		return err
	}
	return c.container.Delete(ctx, containerd.WithSnapshotCleanup)
}

// end kills the first process unless it has ended. All others in its PID namespace die with it.
func (c *container) end(ctx context.Context) error {
	select {
	case <-c.ended:
		return c.waitErr
	default:
	}
	if c.paused.Load() { // a frozen process cannot die
		if err := c.resume(ctx); err != nil {
			return err
		}
	}
	if err := c.task.Kill(ctx, syscall.SIGKILL); err != nil && !isNotFound(err) {
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

// failed adds to an error which call failed for this container; nil stays nil.
func (c *container) failed(call string, err error) error {
	return c.engine.failed(call+" "+c.id, err)
}
