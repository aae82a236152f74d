package podman

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// pollInterval is how often a Podman before 5.3 checks whether a container has exited, while a
// client waits for it. Podman's default is 250 ms, which would be part of every measurement. If it
// is much shorter, the checks hold the lock that the clean-up needs.
const pollInterval = "20ms"

// awaitMonitor returns when the container's monitor, conmon, has exited. The last thing that conmon
// does is to wait until Podman has cleaned up. Since 5.3, a service that is asked to wait watches
// conmon itself. Older services poll instead, so tare watches conmon for them. If tare cannot find
// the monitor, it relies on the service's polling.
func (c *container) awaitMonitor(ctx context.Context) error {
	monitor := c.monitor()
	if monitor == nil {
		return nil
	}
	defer func() { _ = monitor.Close() }() // nothing is written to it
	return proc.AwaitEnd(ctx, monitor)
}

// monitor opens the container's monitor as a file (pidfd) that becomes readable when the monitor
// exits. It is nil if the monitor has exited or cannot be found, or if the kernel has no pidfds
// (before 5.3).
func (c *container) monitor() *os.File {
	store := c.client.Store
	text, err := os.ReadFile(filepath.Join(store.RunRoot, store.Driver+"-containers", c.id, "userdata", "conmon.pid"))
	if err != nil {
		return nil
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || pid <= 1 {
		return nil
	}
	file, err := proc.OpenProcess(pid)
	if err != nil {
		return nil
	}
	// Another process could have this number by now, or in this PID namespace.
	if id, _ := monitorOf(pid); id != c.id {
		_ = file.Close() // nothing was written to it
		return nil
	}
	return file
}

// markRemoved notes a removed container in which Exec ran processes.
func (c *client) markRemoved(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.monitorsPending[id] = true
}

// killMonitors ends the monitors that retired containers have left. A service keeps the monitor of an
// exec'd process for five minutes after its end. Each monitor then starts a Podman that finds
// nothing to do, in the middle of some other trial.
func (c *client) killMonitors() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.monitorsPending) == 0 {
		return nil
	}
	all, err := proc.All("/")
	if err != nil {
		return err
	}
	for _, p := range all {
		left := func() bool {
			id, further := monitorOf(p.PID)
			return further && c.monitorsPending[id]
		}
		if left() {
			err = errors.Join(err, cgroup.KillProcess(p.PID, left))
		}
	}
	clear(c.monitorsPending)
	return err
}

// monitorOf returns the ID of the container that a monitor process belongs to, and whether it is
// the monitor of an exec'd process. The ID is empty if the process is not a monitor.
func monitorOf(pid int) (id string, further bool) {
	args := proc.Args(pid)
	if args == nil || filepath.Base(args[0]) != "conmon" {
		return "", false
	}
	return proc.ArgAfter(args, "-c"), slices.Contains(args, "-e")
}
