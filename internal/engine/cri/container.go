package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/engine/stdstream"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// container is a container of the engine, from its creation to its removal.
type container struct {
	pod        *pod
	engine     *Engine
	id         string
	name       string
	file       string       // that the server writes the output to
	removesPod bool         // Remove removes the pod too
	foreign    bool         // another client has made it, and removes it
	data       *datadir.Dir // on the host; nil if the spec needs none
	dataAt     string       // where the data are

	removing atomic.Bool // Remove was called; the next call cleans up whatever is left

	mu     sync.Mutex
	output *logFollower // nil without Attach
}

func (c *container) ID() string { return c.id }

// Attach follows the log, which the server always writes, as it does for the kubelet.
func (c *container) Attach(_ context.Context, stdout, stderr io.Writer) error {
	output, err := follow(c.file, c.foreign, stdout, stderr)
	if err != nil {
		return fmt.Errorf("%s: attach %s: %w", c.engine.cfg.Name, c.id, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = output
	return nil
}

func (c *container) Start(ctx context.Context) error {
	_, err := c.pod.server.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.id})
	return c.failed(ctx, "start", err)
}

// Wait polls the container's state until it has exited. CRI has no call that waits. Its stream of
// events is missing in containerd 1.6, off in CRI-O, and shared among all listeners in containerd
// 1.7, so that the kubelet would miss the events that tare gets. The interval between two polls is
// one hundredth of the time waited so far, at least 1 ms and at most 100 ms; the end is noticed
// late by at most that much. Once a process has run for longer than a moment, Wait stops polling
// and waits for the kernel to report its end, if it can, because polling takes CPU time away from
// the process.
func (c *container) Wait(ctx context.Context) (bench.Exit, error) {
	last, err := c.exited(ctx)
	if err != nil {
		return bench.Exit{}, err
	}
	exit := bench.Exit{Code: int(last.ExitCode), OOM: last.Reason == "OOMKilled"}
	if last.StartedAt == 0 {
		return exit, c.failed(ctx, "wait", fmt.Errorf("the container never ran: %.100q: %.500q", last.Reason,
			last.Message))
	}
	if err := c.drain(ctx); err != nil {
		return exit, c.failed(ctx, "wait for the output", err)
	}
	return exit, nil
}

func (c *container) exited(ctx context.Context) (*cri.ContainerStatus, error) {
	var process *os.File
	defer func() { _ = process.Close() }() // nothing is written to it; if it is nil, the error does not matter
	sought := false
	for began := time.Now(); ; {
		answer, err := c.pod.server.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: c.id})
		if err != nil {
			return nil, c.failed(ctx, "wait", err)
		}
		state := answer.GetStatus()
		switch state.GetState() {
		case cri.ContainerState_CONTAINER_EXITED:
			return state, nil
		case cri.ContainerState_CONTAINER_UNKNOWN:
			return nil, c.failed(ctx, "wait", errors.New("the server no longer knows the container's state"))
		}
		if !sought && state.GetState() == cri.ContainerState_CONTAINER_RUNNING && time.Since(began) > exitDelay {
			sought = true // it will not be found later either, and a search is expensive
			if process = c.process(ctx); process != nil {
				if err := proc.AwaitEnd(ctx, process); err != nil {
					return nil, c.failed(ctx, "wait", err)
				}
				began = time.Now()
			}
		}
		if err := bench.Sleep(ctx, min(max(time.Millisecond, time.Since(began)/100), 100*time.Millisecond)); err != nil {
			return nil, c.failed(ctx, "wait", err)
		}
	}
}

// exitDelay is how long most processes run that do almost nothing.
const exitDelay = 100 * time.Millisecond

// process opens the container's process, see proc.OpenProcess. It is nil if the process cannot be
// found, or if the kernel has no pidfds.
func (c *container) process(ctx context.Context) *os.File {
	_, info, err := c.state(ctx)
	if err != nil || info.Pid == 0 {
		return nil
	}
	file, err := proc.OpenProcess(info.Pid)
	if err != nil {
		return nil
	}
	if !inCgroupNamed(info.Pid, c.id) {
		_ = file.Close() // nothing was written to it
		return nil
	}
	return file
}

// drain returns when all output has been copied, or an error that says why it cannot be.
func (c *container) drain(ctx context.Context) error {
	c.mu.Lock()
	output := c.output
	c.mu.Unlock()
	if output == nil {
		return nil
	}
	if c.foreign {
		output.finish() // its log may have been complete before it was followed
	}
	select {
	case <-output.ended:
		return output.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop stops the container with CRI's own call.
func (e *Engine) Stop(ctx context.Context, c bench.Container, grace time.Duration) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	timeout := int64(math.Ceil(grace.Seconds()))
	if _, err := own.pod.server.StopContainer(ctx,
		&cri.StopContainerRequest{ContainerId: own.id, Timeout: timeout}); err != nil {
		return own.failed(ctx, "stop", err)
	}
	return nil
}

// Exec uses CRI's ExecSync: the server collects the output, and sends it when the process has
// ended. Some servers keep at most 16 MiB.
func (e *Engine) Exec(
	ctx context.Context, c bench.Container, argv []string, stdout, stderr io.Writer,
) (bench.Exit, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return bench.Exit{}, err
	}
	r := &cri.ExecSyncRequest{ContainerId: own.id, Cmd: argv}
	if deadline, ok := ctx.Deadline(); ok { // for servers that do not notice a cancelled call
		r.Timeout = int64(math.Ceil(max(0, time.Until(deadline)).Seconds())) + 1
	}
	answer, err := own.pod.server.ExecSync(ctx, r)
	if err != nil {
		return bench.Exit{}, own.failed(ctx, "exec", err)
	}
	_, _ = (&stdstream.Sink{To: stdout}).Write(answer.Stdout) // a sink takes everything
	_, _ = (&stdstream.Sink{To: stderr}).Write(answer.Stderr)
	return bench.Exit{Code: int(answer.ExitCode)}, nil
}

// containerOf returns the engine's container behind the interface.
func (e *Engine) containerOf(c bench.Container) (*container, error) {
	own, ok := c.(*container)
	if !ok || own.engine != e {
		return nil, fmt.Errorf("%s: container %s is not of this engine", e.cfg.Name, c.ID())
	}
	return own, nil
}

// Remove stops the container with SIGKILL and removes it. If Create made the pod, Remove then stops
// and removes the pod. These are the kubelet's calls. In the first Remove each call must succeed.
// In later ones only the result matters: removing a pod removes everything in it.
func (c *container) Remove(ctx context.Context) error {
	if c.foreign {
		return c.release()
	}
	first := !c.removing.Swap(true)
	err := c.remove(ctx, first)
	if c.removesPod {
		stopped := c.pod.Stop(ctx)
		if removed := c.pod.Remove(ctx); removed != nil || first {
			return errors.Join(err, stopped, removed)
		}
		return nil
	}
	if err != nil {
		return err
	}
	return c.release()
}

func (c *container) remove(ctx context.Context, first bool) error {
	s := c.pod.server
	_, stopped := s.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: c.id})
	_, err := s.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: c.id})
	if isNotFound(err) {
		err = nil
	}
	if first && stopped != nil && !isNotFound(stopped) || err != nil {
		return c.failed(ctx, "remove", errors.Join(err, stopped))
	}
	return nil
}

// release closes and removes tare's own files of a removed container.
func (c *container) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.output != nil {
		c.output.close()
		c.output = nil
	}
	if c.foreign {
		return nil
	}
	if err := os.Remove(c.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return c.data.Remove()
}

// removeByName removes every container with this name, after a call that failed or was answered too
// late.
func (c *container) removeByName(ctx context.Context) error {
	ctx, cancel := owned.CleanUp(ctx)
	defer cancel()
	found, err := c.pod.server.ListContainers(ctx, &cri.ListContainersRequest{
		Filter: &cri.ContainerFilter{PodSandboxId: c.pod.id, LabelSelector: map[string]string{labelName: c.name}},
	})
	if err != nil {
		return c.failed(ctx, "look for container "+c.name, err)
	}
	for _, left := range found.Containers {
		if left.PodSandboxId == c.pod.id && left.Labels[labelName] == c.name {
			err = errors.Join(err, (&container{pod: c.pod, engine: c.engine, id: left.Id, name: c.name, file: c.file}).Remove(ctx))
		}
	}
	return err
}

func (c *container) failed(ctx context.Context, call string, err error) error {
	return c.engine.failed(ctx, call+" "+c.id[:min(12, len(c.id))], err)
}
