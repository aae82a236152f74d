package podman

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// containerOf returns the engine's container behind the interface.
func (e *Engine) containerOf(c bench.Container) (*container, error) {
	return bench.Own[*container](c, e.cfg.Name)
}

// post makes a call about a container that sends no data and returns none.
func (e *Engine) post(ctx context.Context, c bench.Container, call string) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	if err := own.client.post(ctx, own.at("/"+call), nil, nil); err != nil {
		word, _, _ := strings.Cut(call, "?")
		return own.failed(word, err)
	}
	return nil
}

// Pause freezes the container's processes with one call. Podman needs a control group for it. With
// cgroup version 1, an ordinary user has none.
func (e *Engine) Pause(ctx context.Context, c bench.Container) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	if h := own.client.Host; h.Security.Rootless && h.CgroupVersion == "v1" {
		return e.unsupported("pause: with cgroup version 1 it needs root: run tare as root")
	}
	return e.post(ctx, c, "pause")
}

// Resume thaws the container's processes with one call.
func (e *Engine) Resume(ctx context.Context, c bench.Container) error {
	return e.post(ctx, c, "unpause")
}

// Signal signals the first process with one call.
func (e *Engine) Signal(ctx context.Context, c bench.Container, s syscall.Signal) error {
	return e.post(ctx, c, "kill?signal="+strconv.Itoa(int(s)))
}

// Stop stops the container with one call.
func (e *Engine) Stop(ctx context.Context, c bench.Container, grace time.Duration) error {
	return e.post(ctx, c, "stop?timeout="+strconv.Itoa(int(grace/time.Second)))
}

// Exec runs a process with three calls: one that makes the session, one that
// starts it and carries its output, one that asks how it ended. A program that
// cannot be executed is status 126 or 127, with Podman's reason on stderr.
func (e *Engine) Exec(
	ctx context.Context, c bench.Container, argv []string, stdout, stderr io.Writer,
) (bench.Exit, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return bench.Exit{}, err
	}
	exit, err := own.exec(ctx, argv, stdout, stderr)
	if err != nil {
		return bench.Exit{}, own.failed("exec", bench.Because(ctx, err))
	}
	return exit, nil
}

func (c *container) exec(ctx context.Context, argv []string, stdout, stderr io.Writer) (exit bench.Exit, err error) {
	var session struct {
		ID string `json:"Id"`
	}
	c.execs.Store(true)
	err = c.client.post(ctx, c.at("/exec"), map[string]any{"AttachStdout": true, "AttachStderr": true, "Cmd": argv},
		&session)
	if err != nil {
		return exit, err
	}
	if err := c.client.streamOutput(ctx, "/exec/"+session.ID+"/start", stdout, stderr); err != nil {
		return exit, err
	}
	var end struct {
		Running  bool
		ExitCode int
	}
	err = c.client.get(ctx, "/exec/"+session.ID+"/json", &end)
	if err == nil && end.Running {
		err = errors.New("the output has ended, but the process still runs")
	}
	exit.Code = end.ExitCode
	return exit, err
}

// streamOutput makes a call and copies the output that its connection carries, until the end.
func (c *client) streamOutput(ctx context.Context, path string, stdout, stderr io.Writer) error {
	stream, err := c.hijack(ctx, path, map[string]any{"Detach": false, "Tty": false})
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // nothing is sent on it
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()
	return stdstream.Copy(stdout, stderr, stream)
}

// Checkpointable checks what Podman needs: root, a criu that works with this kernel, and a default
// runtime with a checkpoint command.
func (e *Engine) Checkpointable(ctx context.Context) error {
	i, _, err := e.inspectPodman(ctx)
	if err != nil {
		return err
	}
	runtime := i.Host.OCIRuntime
	if i.Host.Security.Rootless {
		return e.unsupported("checkpoints need root: run tare as root")
	}
	if _, err := exec.LookPath("criu"); err != nil {
		return e.unsupported("checkpoints need the program criu: install criu")
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if _, err := stdstream.Run(ctx, 0, "criu", "check"); err != nil {
		return e.unsupported("checkpoints: criu does not work with this kernel: %v: run `criu check` to see why", err)
	}
	if _, err := stdstream.Run(ctx, 0, runtime.Path, "checkpoint", "--help"); err != nil {
		return e.unsupported("checkpoints: the runtime %s was built without criu: %v: install one that has it",
			runtime.Path, err)
	}
	return ctx.Err()
}

// Checkpoint writes the container's state to Podman's own storage with one call.
func (e *Engine) Checkpoint(ctx context.Context, c bench.Container) error {
	return e.post(ctx, c, "checkpoint")
}

// Restore brings the container back with one call.
func (e *Engine) Restore(ctx context.Context, c bench.Container) error {
	return e.post(ctx, c, "restore")
}
