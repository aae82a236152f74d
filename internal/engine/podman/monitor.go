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

// pollInterval is how often a Podman before 5.3 looks whether a container has
// exited while somebody waits for it. By default it is 250 ms, which would be in
// every measurement; much less takes the lock from those who clean up.
const pollInterval = "20ms"

// awaitMonitor returns when the container's monitor, conmon, has exited: the
// last thing that it does is to wait until Podman has cleaned up. From 5.3 a
// service that is asked to wait does exactly this. Older ones mean to, and look
// every so often instead, so here it is done for them. Where the monitor cannot
// be found the service's looking has to do.
func (c *running) awaitMonitor(ctx context.Context) error {
	monitor := c.monitor()
	if monitor == nil {
		return nil
	}
	defer func() { _ = monitor.Close() }() // nothing is written to it
	return proc.AwaitEnd(ctx, monitor)
}

// monitor opens the container's monitor as a file that becomes readable when it
// exits. It is nil where there is none any more, where it cannot be found, or
// where the kernel has no such files (before 5.3).
func (c *running) monitor() *os.File {
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
	// The number could be another's by now, or have another meaning here.
	if id, _ := monitored(pid); id != c.id {
		_ = file.Close() // nothing was written to it
		return nil
	}
	return file
}

// retire notes a container that was removed, and in which further processes ran.
func (c *client) retire(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired[id] = true
}

// tidy ends what retired containers have left: a service makes the monitors of
// further processes stay for five minutes after them, and then has each start a
// Podman that finds nothing to do, in the middle of some other trial.
func (c *client) tidy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.retired) == 0 {
		return nil
	}
	all, err := proc.All("/")
	if err != nil {
		return err
	}
	for _, p := range all {
		left := func() bool {
			id, further := monitored(p.PID)
			return further && c.retired[id]
		}
		if left() {
			err = errors.Join(err, cgroup.KillProcess(p.PID, left))
		}
	}
	clear(c.retired)
	return err
}

// monitored is the ID of the container whose monitor a process is, and whether
// it is that of a further process; empty if it is no monitor.
func monitored(pid int) (id string, further bool) {
	args := proc.Args(pid)
	if args == nil || filepath.Base(args[0]) != "conmon" {
		return "", false
	}
	return proc.ArgAfter(args, "-c"), slices.Contains(args, "-e")
}
