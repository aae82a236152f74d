package docker

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/engine/stdstream"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// Exec creates, starts and inspects an exec, each with one call. The end of the output tells that
// the process has exited; the engine keeps the output open while any process can write to it.
func (e *Engine) Exec(
	ctx context.Context, c bench.Container, argv []string, stdout, stderr io.Writer,
) (bench.Exit, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return bench.Exit{}, err
	}
	exit, err := own.exec(ctx, argv, stdout, stderr)
	if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = own.failed("exec in", err)
	}
	return exit, err
}

func (c *dockerContainer) exec(
	ctx context.Context, argv []string, stdout, stderr io.Writer,
) (exit bench.Exit, err error) {
	api := c.engine.client
	made, err := api.ExecCreate(ctx, c.id, client.ExecCreateOptions{AttachStdout: true, AttachStderr: true, Cmd: argv})
	if err != nil {
		return exit, err
	}
	stream, err := api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return exit, c.endExec(ctx, made.ID, err)
	}
	defer stream.Close()
	copied := make(chan error, 1)
	go func() { copied <- stdstream.Copy(stdout, stderr, stream.Reader) }()
	select {
	case err := <-copied:
		if err != nil {
			return exit, err
		}
	case <-ctx.Done():
		return exit, c.endExec(ctx, made.ID, context.Cause(ctx))
	}
	return c.exitOf(ctx, made.ID)
}

// exitOf asks how the process of an exec has ended. It asks again if necessary, because the output
// can end a moment before the engine notices the exit.
func (c *dockerContainer) exitOf(ctx context.Context, id string) (bench.Exit, error) {
	for {
		is, err := c.engine.client.ExecInspect(ctx, id, client.ExecInspectOptions{})
		if err != nil || !is.Running {
			return bench.Exit{Code: is.ExitCode}, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return bench.Exit{}, c.endExec(ctx, id, context.Cause(ctx))
		}
	}
}

// endExec returns why. If ctx has ended, it kills the process of the exec. The engine has no call
// for that, so endExec can do it only if the process is visible from here; otherwise the process
// lives as long as the container.
func (c *dockerContainer) endExec(ctx context.Context, id string, why error) error {
	if ctx.Err() == nil {
		return why
	}
	ctx, cancel := owned.CleanUp(ctx)
	defer cancel()
	is, err := c.engine.client.ExecInspect(ctx, id, client.ExecInspectOptions{})
	if err != nil || !is.Running || is.PID <= 0 || !readback.SameNumbers(c.engine.daemon(ctx)) {
		return errors.Join(why, err)
	}
	h, err := cgroup.Detect("/")
	if err == nil {
		err = cgroup.KillProcess(is.PID, func() bool { return readback.InGroupOf(h, is.PID, c.id) })
	}
	return errors.Join(why, err)
}
