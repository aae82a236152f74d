package containerd

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"syscall"

	containerd "github.com/containerd/containerd/v2/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// containerOf returns a container of this engine.
func (e *Engine) containerOf(c bench.Container) (*container, error) {
	return bench.Own[*container](c, e.cfg.Name)
}

// Cgroup returns the path of the container's cgroup.
func (e *Engine) Cgroup(_ context.Context, c bench.Container) (string, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return "", err
	}
	return groupOf(e.cfg.Run, own.id), nil
}

// Daemons returns containerd itself. Its shims do not count: each serves one container.
func (e *Engine) Daemons(ctx context.Context) ([]int, error) {
	d, err := e.findDaemon(ctx) // containerd may have been restarted
	if err != nil {
		return nil, err
	}
	return []int{d.pid}, nil
}

// Pid returns the container's first process, or its sandbox if it is in one.
func (e *Engine) Pid(_ context.Context, c bench.Container) (int, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return 0, err
	}
	return int(own.task.Pid()), nil
}

// call makes one call about a container's task.
func (e *Engine) call(ctx context.Context, c bench.Container, name string, do func(own *container) error) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	return own.failed(name, bench.Because(ctx, do(own)))
}

// Pause freezes the container's processes.
func (e *Engine) Pause(ctx context.Context, c bench.Container) error {
	return e.call(ctx, c, "pause", func(own *container) error {
		own.paused.Store(true) // also if the answer is lost
		return own.task.Pause(ctx)
	})
}

// Resume thaws the container's processes.
func (e *Engine) Resume(ctx context.Context, c bench.Container) error {
	return e.call(ctx, c, "resume", func(own *container) error { return own.resume(ctx) })
}

func (c *container) resume(ctx context.Context) error {
	err := c.task.Resume(ctx)
	if err == nil {
		c.paused.Store(false)
	}
	return err
}

// Signal sends a signal to the container's first process.
func (e *Engine) Signal(ctx context.Context, c bench.Container, s syscall.Signal) error {
	return e.call(ctx, c, "signal", func(own *container) error { return own.task.Kill(ctx, s) })
}

// Exec creates one more process, starts it, waits for it and deletes it.
func (e *Engine) Exec(
	ctx context.Context, c bench.Container, argv []string, stdout, stderr io.Writer,
) (bench.Exit, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return bench.Exit{}, err
	}
	id := e.next()
	out, err := newOutput(e.dir, id)
	if err != nil {
		return bench.Exit{}, own.failed("exec in", err)
	}
	defer out.close()
	process := *own.process
	process.Args = argv
	p, err := own.task.Exec(ctx, id, &process, out.creator)
	if err != nil {
		return bench.Exit{}, own.failed("exec in", bench.Because(ctx, err))
	}
	exit, err := finish(ctx, p, out, stdout, stderr)
	return exit, own.failed("exec in", errors.Join(bench.Because(ctx, err), deleteProcess(ctx, p)))
}

// finish runs a process to its end.
func finish(ctx context.Context, p containerd.Process, out *output, stdout, stderr io.Writer) (bench.Exit, error) {
	told, err := p.Wait(ctx)
	if err != nil {
		return bench.Exit{}, err
	}
	if err := p.Start(ctx); err != nil {
		return bench.Exit{}, err
	}
	out.copy(stdout, stderr)
	code, _, err := (<-told).Result() // also when ctx ends
	if err != nil {
		return bench.Exit{}, err
	}
	return bench.Exit{Code: int(code)}, out.wait(ctx)
}

// deleteProcess deletes a process of Exec. If ctx has ended, it kills the process first.
func deleteProcess(ctx context.Context, p containerd.Process) error {
	if ctx.Err() == nil {
		_, err := p.Delete(ctx)
		return err
	}
	clean, cancel := owned.CleanUp(ctx)
	defer cancel()
	_, err := p.Delete(clean, containerd.WithProcessKill)
	return err
}

// Address implements bench.Addresser.
func (e *Engine) Address(_ context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netdev.Address(own.spec, own.address, p)
}

// Path implements bench.Addresser.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return nil, err
	}
	return netpath.PathTo(ctx, e, c, p, own.spec.Reach)
}
