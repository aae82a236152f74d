package podman

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// What this file asks of the kernel is about the process of the service.

// Daemons returns the service's processes. One that the service manager starts
// for a call and ends after it is none: the manager listens in its place.
func (e *Engine) Daemons(ctx context.Context) ([]int, error) {
	if _, err := e.client(ctx, ""); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var pids []int
	for _, c := range e.clients {
		if pid := c.serving(ctx); proc.Name(pid) == "podman" {
			pids = append(pids, pid)
		}
		// What an ordinary user starts goes on as a child in a namespace of its own.
		if pid := c.own.pid(); pid != 0 && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Pid asks Podman for the number of a container's first process. Between it and
// the first process of the host is the container's monitor, conmon.
func (e *Engine) Pid(ctx context.Context, c bench.Container) (int, error) {
	own, err := e.own(c)
	if err != nil {
		return 0, err
	}
	got, err := own.inspect(ctx)
	if err != nil {
		return 0, own.failed("inspect", err)
	}
	if got.State.Pid <= 0 {
		return 0, own.failed("inspect", errors.New("it has no process"))
	}
	return got.State.Pid, nil
}

// serving is the process that listens on the service's socket; 0 where it
// cannot be told.
func (c *client) serving(ctx context.Context) int {
	conn, err := dial(ctx, c.socket)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }() // nothing was written
	return proc.Peer(conn)
}

// sameProcesses reports whether a process has the same number for the service
// and for tare: the service is seen from here, and in no PID namespace below.
func (c *client) sameProcesses(ctx context.Context) bool {
	return readback.SameNumbers(c.serving(ctx))
}

// checkPrivileged refuses a privileged container where the service itself lacks
// a capability, as in another container: it would make one and then not be
// able to start it. Where the service cannot be looked at, it is believed.
func (e *Engine) checkPrivileged(ctx context.Context, c *client) error {
	if lacks, err := readback.Withheld(c.serving(ctx)); err == nil && lacks != 0 {
		return e.refuse("privileged: the service itself lacks %v", lacks)
	}
	return nil
}

// affordable returns the limits that every container is to be given. Podman of
// root gives more open files and processes than a service without
// CAP_SYS_RESOURCE may hand out, and no container would start. It then gives
// what the service has itself, unless that is more than Podman's default.
func (c *client) affordable(ctx context.Context) []rlimit {
	pid := c.serving(ctx)
	status, err := readback.StatusOf(pid)
	if err != nil || c.Host.Security.Rootless || status.Effective.Has(unix.CAP_SYS_RESOURCE) {
		return nil
	}
	var limits []rlimit
	text, _ := proc.ReadFile(fmt.Sprintf("/proc/%d/limits", pid), 64<<10) // what cannot be told is Podman's choice
	for kind, label := range map[string]string{"nofile": "Max open files", "nproc": "Max processes"} {
		_, rest, _ := strings.Cut(string(text), "\n"+label)
		if f := strings.Fields(rest); len(f) > 1 { // soft, hard, unit
			if hard, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				limits = append(limits, rlimit{Type: kind, Hard: hard, Soft: hard})
			}
		}
	}
	return limits
}
