package podman

import (
	"context"
	"errors"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// This file asks the kernel about the service's process.

// Daemons returns the service's processes. A service that systemd starts for each call is not a
// daemon: systemd listens in its place, and there is no process to return.
func (e *Engine) Daemons(ctx context.Context) ([]int, error) {
	if _, err := e.client(ctx, ""); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var pids []int
	for _, c := range e.clients {
		if pid := c.servicePID(ctx); proc.Name(pid) == "podman" {
			pids = append(pids, pid)
		}
		// An ordinary user's podman continues as a child in a user namespace of its own.
		if pid := c.ownService.pid(); pid != 0 && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Pid asks Podman for the number of a container's first process. The parent of that process is the
// container's monitor, conmon.
func (e *Engine) Pid(ctx context.Context, c bench.Container) (int, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return 0, err
	}
	got, err := own.inspect(ctx)
	if err != nil {
		return 0, own.failed("inspect", err)
	}
	if got.State.Pid <= 0 {
		return 0, own.failed("inspect", errors.New("the container has no process"))
	}
	return got.State.Pid, nil
}

// servicePID is the process that listens on the service's socket; 0 if it is unknown.
func (c *client) servicePID(ctx context.Context) int {
	conn, err := dial(ctx, c.socket)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }() // nothing was written
	return proc.Peer(conn)
}

// sameProcesses reports whether a process has the same number for the service and for tare: the
// service is visible from here and shares tare's PID namespace.
func (c *client) sameProcesses(ctx context.Context) bool {
	return readback.SameNumbers(c.servicePID(ctx))
}

// settableRlimits returns the resource limits (rlimits) for every container; nil means Podman's
// defaults. Podman of root allows more open files and processes than a service without
// CAP_SYS_RESOURCE may grant, and no container would start. For such a service, the limits are the
// service's own, unless those are above Podman's defaults.
func (c *client) settableRlimits(ctx context.Context) []specs.POSIXRlimit {
	pid := c.servicePID(ctx)
	status, err := readback.StatusOf(pid)
	if err != nil || c.Host.Security.Rootless || status.Effective.Has(unix.CAP_SYS_RESOURCE) {
		return nil
	}
	var limits []specs.POSIXRlimit
	for kind, resource := range map[string]int{"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC} {
		var l unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &l); err == nil && l.Max != unix.RLIM_INFINITY { // else Podman's choice
			limits = append(limits, specs.POSIXRlimit{Type: kind, Hard: l.Max, Soft: l.Max})
		}
	}
	return limits
}
