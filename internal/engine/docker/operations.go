package docker

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// containerOf returns the engine's container behind the interface.
func (e *Engine) containerOf(c bench.Container) (*dockerContainer, error) {
	return bench.Own[*dockerContainer](c, e.cfg.Name)
}

// call makes one call about a container.
func (e *Engine) call(ctx context.Context, c bench.Container, name string, do func(id string) error) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	return own.failed(name, bench.Because(ctx, do(own.id)))
}

// Pause freezes the container.
func (e *Engine) Pause(ctx context.Context, c bench.Container) error {
	return e.call(ctx, c, "pause", func(id string) error {
		_, err := e.client.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		return err
	})
}

// Resume thaws the container.
func (e *Engine) Resume(ctx context.Context, c bench.Container) error {
	return e.call(ctx, c, "unpause", func(id string) error {
		_, err := e.client.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		return err
	})
}

// Signal sends a signal to the first process.
func (e *Engine) Signal(ctx context.Context, c bench.Container, s syscall.Signal) error {
	return e.call(ctx, c, "kill", func(id string) error {
		_, err := e.client.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: strconv.Itoa(int(s))})
		return err
	})
}

// Stop stops the container. A grace below a second counts as none.
func (e *Engine) Stop(ctx context.Context, c bench.Container, grace time.Duration) error {
	seconds := int(grace / time.Second)
	return e.call(ctx, c, "stop", func(id string) error {
		_, err := e.client.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
		return err
	})
}

// Pid asks the engine for the first process. The number is valid here only if the engine sees
// processes under the same numbers as tare.
func (e *Engine) Pid(ctx context.Context, c bench.Container) (int, error) {
	pid := 0
	err := e.call(ctx, c, "inspect", func(id string) error {
		answer, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if err == nil && answer.Container.State != nil {
			pid = answer.Container.State.Pid
		}
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case pid <= 0:
		return 0, e.failed("inspect", errors.New("the container has no process"))
	case !readback.SameNumbers(e.daemon(ctx)):
		return 0, e.daemonNotVisible()
	}
	return pid, nil
}

// Daemons returns the engine, and the containerd that it uses: its child, or the one at the address
// that it reports.
func (e *Engine) Daemons(ctx context.Context) ([]int, error) {
	info, err := e.ask(ctx)
	if err != nil {
		return nil, err
	}
	daemon, err := engineBehind(e.daemon(ctx))
	if err != nil {
		return nil, e.failed("find the engine's process", err)
	}
	inVM := info.OperatingSystem == "Docker Desktop"
	if daemon == 0 || inVM || !readback.SameNumbers(daemon) {
		return nil, e.daemonNotVisible()
	}
	address := ""
	if info.Containerd != nil {
		address = info.Containerd.Address
	}
	beside, err := containerd(ctx, daemon, address)
	if err != nil {
		return nil, e.failed("find the engine's containerd", err)
	}
	return append([]int{daemon}, beside...), nil
}

// engineBehind is the engine's process, where another one may listen in its place: systemd does so for the dockerd that
// it starts, as distributions set it up. Everything on the machine is below systemd.
func engineBehind(listens int) (int, error) {
	const name = "dockerd"
	if listens == 0 || proc.Name(listens) == name {
		return listens, nil
	}
	all, err := proc.All("/")
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if p.Parent == listens && p.State != 'Z' && proc.Name(p.PID) == name {
			return p.PID, nil
		}
	}
	return listens, nil // an engine of another name
}

// daemonNotVisible is the error that the engine's processes are not visible from here.
func (e *Engine) daemonNotVisible() error {
	return e.run.Unsupported("the processes of the engine at %s are not visible from here: run tare where the engine runs",
		e.client.DaemonHost())
}
