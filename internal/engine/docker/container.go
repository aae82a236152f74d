package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// dockerContainer is a container of the engine, from its creation to its removal.
type dockerContainer struct {
	engine *Engine
	name   string // that tare gave it
	id     string // that the engine gave it, or name if Inspect found that the ID is another container's
	image  owned.Loaded
	spec   bench.Spec
	data   *datadir.Dir // on the host; nil if the spec needs none

	removing atomic.Bool // Remove was called; the next call cleans up whatever is left

	output stdstream.Output
}

func (c *dockerContainer) ID() string { return c.id }

// Attach opens a connection on which the engine sends the container's output, and copies from it
// until the container has ended. The engine's log driver also keeps the output, as it always does.
func (c *dockerContainer) Attach(ctx context.Context, stdout, stderr io.Writer) error {
	answer, err := c.engine.client.ContainerAttach(ctx, c.id,
		client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return c.failed("attach", err)
	}
	c.output.Follow(stdout, stderr, answer.Reader, answer.Close)
	return nil
}

func (c *dockerContainer) Start(ctx context.Context) error {
	_, err := c.engine.client.ContainerStart(ctx, c.id, client.ContainerStartOptions{})
	return c.failed("start", err)
}

func (c *dockerContainer) Wait(ctx context.Context) (bench.Exit, error) {
	answer := c.engine.client.ContainerWait(ctx, c.id,
		client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	var exit bench.Exit
	select {
	case r := <-answer.Result:
		if r.Error != nil {
			return exit, c.failed("wait", fmt.Errorf("%.500q", r.Error.Message))
		}
		exit.Code = int(r.StatusCode)
	case err := <-answer.Error: // also when ctx ends
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return exit, c.failed("wait", err)
	}
	if err := c.output.DrainOr(ctx, c.logFile(), c.log); err != nil {
		return exit, c.failed("wait for the output", err)
	}
	if exit.Code != 137 {
		return exit, nil
	}
	// A process that was killed by SIGKILL may have run out of memory.
	got, err := c.engine.client.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	exit.OOM = err == nil && got.Container.State != nil && got.Container.State.OOMKilled
	return exit, c.failed("inspect", err)
}

// log asks for the log of a container that has ended.
func (c *dockerContainer) log(ctx context.Context) (io.ReadCloser, error) {
	return c.engine.client.ContainerLogs(ctx, c.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
}

// logFile is the file of the log driver json-file; with another one there is none.
func (c *dockerContainer) logFile() string {
	return filepath.Join(c.engine.root(), "containers", c.id, c.id+"-json.log")
}

// Remove kills and removes the container with its volumes, with one call. If that fails, the next
// Remove makes every effort.
func (c *dockerContainer) Remove(ctx context.Context) error {
	if c.removing.Swap(true) {
		if err := c.engine.removeContainer(ctx, c.id); err != nil {
			return err
		}
	} else if err := c.engine.deleteContainer(ctx, c.id); err != nil {
		return c.failed("remove", bench.Because(ctx, err))
	}
	if err := c.data.Remove(); err != nil {
		return c.failed("remove", err)
	}
	c.output.Close()
	return nil
}

// Gone asks the engine whether a container that it reported as removed still exists.
func (e *Engine) Gone(ctx context.Context, c bench.Container) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	_, err = e.client.ContainerInspect(ctx, own.id, client.ContainerInspectOptions{})
	switch {
	case isNotFound(err):
		return nil
	case err == nil:
		err = errors.New("the engine reported the container as removed, but still has it")
	default:
		err = bench.Because(ctx, err)
	}
	return own.failed("remove", err)
}

func (e *Engine) deleteContainer(ctx context.Context, id string) error {
	_, err := e.client.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return err
}

// removeContainer removes a container, which another client may be removing too. It is not an error
// if there is none.
func (e *Engine) removeContainer(ctx context.Context, id string) error {
	err := e.deleteContainer(ctx, id)
	if errdefs.IsConflict(err) {
		err = e.awaitRemoval(ctx, id)
	}
	if err == nil || isNotFound(err) {
		return nil
	}
	return e.failed("remove "+id, bench.Because(ctx, err))
}

// awaitRemoval waits until a removal that another client has begun is complete.
func (e *Engine) awaitRemoval(ctx context.Context, id string) error {
	answer := e.client.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	select {
	case r := <-answer.Result:
		if r.Error != nil {
			return errors.New(r.Error.Message)
		}
		return nil
	case err := <-answer.Error:
		return err
	}
}

func (c *dockerContainer) failed(call string, err error) error {
	return c.engine.failed(call+" "+c.id[:min(12, len(c.id))], err)
}
