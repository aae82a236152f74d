package podman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/engine/stdstream"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// container is a container of the engine, from its creation to its removal.
type container struct {
	client *client
	run    owned.Run
	name   string // that tare gave it
	id     string // that Podman gave it, or name if Inspect found that the ID is another container's
	image  owned.Loaded
	spec   bench.Spec
	data   *datadir.Dir // on the host; nil if the spec needs none

	profile string // file with the filter for bench.SeccompDocker

	attached       bool // Attach was called
	stdout, stderr io.Writer

	removing atomic.Bool // Remove was called; the next call cleans up whatever is left
	execs    atomic.Bool // Exec was called
	output   stdstream.Output
}

func (c *container) ID() string { return c.id }

func (c *container) at(call string) string { return "/containers/" + c.id + call }

// Attach notes where the output goes. Start attaches, because attaching is half of Podman's start:
// it makes the namespaces, mounts and network and lets the runtime create the container. Without
// attaching, Podman does the same work in start.
func (c *container) Attach(ctx context.Context, stdout, stderr io.Writer) error {
	c.attached, c.stdout, c.stderr = true, stdout, stderr
	return ctx.Err()
}

// Start starts the container with one call, or with two if output is to be copied.
func (c *container) Start(ctx context.Context) error {
	if c.attached {
		if err := c.attach(ctx); err != nil {
			return c.failed("attach", err)
		}
	}
	return c.failed("start", c.client.post(ctx, c.at("/start"), nil, nil))
}

// attach opens a connection on which Podman sends the container's output, and copies from it until
// the container has ended. Podman also keeps the output in its log, as it always does.
func (c *container) attach(ctx context.Context) error {
	stream, err := c.client.hijack(ctx, c.at("/attach?stream=true&stdout=true&stderr=true"), nil)
	if err != nil {
		return err
	}
	c.output.Broken = brokenStream
	c.output.Follow(c.stdout, c.stderr, stream, func() { _ = stream.Close() }) // nothing is sent on it
	return nil
}

// brokenStream reports whether Podman says, on the container's stderr, that it has lost the connection to its
// monitor. On a busy machine the monitor of a short container ends before Podman has read what it has sent
// (Podman 4.3 once among 200 containers, at a load of 10).
func brokenStream(frame []byte) bool {
	return bytes.HasPrefix(frame, []byte("Error: read unixpacket ")) &&
		bytes.HasSuffix(frame, []byte(": connection reset by peer\n"))
}

// log asks for the log of a container that has ended.
func (c *container) log(ctx context.Context) (io.ReadCloser, error) {
	answer, err := c.client.send(ctx, http.MethodGet, c.at("/logs?stdout=true&stderr=true"), "", nil)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// logFile is the file of Podman's log driver k8s-file; with another one there is none.
func (c *container) logFile() string {
	store := c.client.Store
	return filepath.Join(store.GraphRoot, store.Driver+"-containers", c.id, "userdata", "ctr.log")
}

// Wait returns when Podman says that the container has exited. Podman says so once it has also
// cleaned up after the container, see awaitMonitor.
func (c *container) Wait(ctx context.Context) (bench.Exit, error) {
	if c.client.olderThan(5, 3) {
		if err := c.awaitMonitor(ctx); err != nil {
			return bench.Exit{}, c.failed("wait", err)
		}
	}
	var exit bench.Exit
	if err := c.client.post(ctx, c.at("/wait?condition=exited&interval="+pollInterval), nil, &exit.Code); err != nil {
		return exit, c.failed("wait", err)
	}
	if exit.Code < 0 {
		return bench.Exit{}, c.failed("wait", fmt.Errorf("exit status %d", exit.Code))
	}
	if err := c.output.DrainOr(ctx, c.logFile(), c.log); err != nil {
		return exit, c.failed("wait for the output", err)
	}
	if exit.Code != 137 {
		return exit, nil
	}
	// A process that was killed by SIGKILL may have run out of memory.
	got, err := c.inspect(ctx)
	exit.OOM = err == nil && got.State.OOMKilled
	return exit, c.failed("inspect", err)
}

// Remove kills the container at once and removes it with its volumes, with one call. If that fails,
// the next Remove makes every effort.
func (c *container) Remove(ctx context.Context) error {
	if c.removing.Swap(true) {
		if err := c.client.removeContainer(ctx, c.id); err != nil {
			return err
		}
	} else if err := c.client.call(ctx, http.MethodDelete, c.at(removeQuery), nil, nil); err != nil {
		return c.failed("remove", err)
	}
	if err := c.data.Remove(); err != nil {
		return c.failed("remove", err)
	}
	if c.execs.Load() {
		c.client.markRemoved(c.id)
	}
	c.output.Close()
	return nil
}

// removeQuery is the query of the call that kills and removes a container.
const removeQuery = "?force=true&volumes=true&timeout=0"

// removeContainer removes a container. It restarts the service and tries again if necessary. It is
// not an error if there is no such container.
func (c *client) removeContainer(ctx context.Context, id string) error {
	remove := func() error { return c.remove(ctx, "/containers/"+id+removeQuery) }
	err := remove()
	for wait := time.Millisecond; isBusy(err) && wait < time.Second && ctx.Err() == nil; wait *= 2 {
		time.Sleep(wait)
		err = remove()
	}
	if err != nil {
		return c.failed("remove "+id, err)
	}
	return c.failed("remove "+id+": end its remaining processes", c.killEvicted(ctx, id))
}

// isBusy reports whether Podman got in its own way. After every container it starts a process that
// cleans up. For a container with a user namespace, this process can still be unmounting what
// Podman is about to delete.
func isBusy(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && strings.Contains(e.Message, "device or resource busy")
}

func (c *container) failed(call string, err error) error {
	return c.client.failed(call+" "+c.id[:min(12, len(c.id))], err)
}

// Gone looks for processes of a container that was removed. If Podman cannot look a container up
// because another Podman process works on it, it claims to have removed it by force, but only
// deletes its database entry (EvictContainer; seen with 4.3.1). The container's processes then run
// on unmanaged.
func (e *Engine) Gone(_ context.Context, c bench.Container) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	_, pids, err := own.client.evictedProcesses(own.id)
	if err == nil && len(pids) > 0 {
		err = fmt.Errorf("podman reported the container as removed, but its process %d still runs", pids[0])
	}
	return own.failed("remove", err)
}

// evictedProcesses finds the processes of a removed container that still run, by its control group, whose
// name is the container's ID.
func (c *client) evictedProcesses(id string) (group string, pids []int, err error) {
	if errors.Is(c.groupsErr, cgroup.ErrNone) || c.Host.Security.Rootless {
		return "", nil, nil // no group, or one below the user's
	}
	if c.groupsErr != nil {
		return "", nil, c.groupsErr
	}
	group = "/libpod_parent/libpod-" + id
	if c.Host.CgroupManager == "systemd" {
		group = "/machine.slice/libpod-" + id + ".scope"
	}
	pids, err = c.groups.Procs(group)
	return group, pids, err
}

// killEvicted kills the processes of a removed container that still run.
func (c *client) killEvicted(ctx context.Context, id string) error {
	group, pids, err := c.evictedProcesses(id)
	if err != nil || len(pids) == 0 {
		return err
	}
	return errors.Join(c.groups.Kill(ctx, group), c.groups.Remove(ctx, group))
}
