package floor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// Inspect implements bench.Container. It asks the kernel about init, which has all properties that
// the program will have. If the root is not made of the resolved image, the error is
// bench.ErrMismatch.
func (c *container) Inspect(ctx context.Context) (bench.Applied, error) {
	if err := ctx.Err(); err != nil {
		return bench.Applied{}, err
	}
	a, err := c.inspect()
	if err != nil {
		return bench.Applied{}, fmt.Errorf("inspect %s: %w", c.id, err)
	}
	return a, nil
}

func (c *container) inspect() (bench.Applied, error) {
	tid, err := hostThreadID(c.process.Pid, c.ready.Thread)
	if err != nil {
		return bench.Applied{}, err
	}
	a, root, err := readback.Process(tid, c.plan.spec.Mounts)
	if err != nil {
		return a, err
	}
	if err := c.checkRoot(tid, root); err != nil {
		return a, err
	}
	a.Image, a.Argv = c.plan.image, c.ready.Argv
	if a.Network != "host" {
		// Interfaces that the kernel puts into every namespace, such as tunl0, do not count as a
		// network.
		if a.Network, err = netpath.Network(tid, "none"); err != nil {
			return a, err
		}
	}
	if a.Security.UserNS {
		if a.Security.Privileged, err = hasFullCaps(tid); err != nil {
			return a, err
		}
	}
	if c.plan.spec.Storage != "" {
		if a.Data, err = readback.Data(tid, "bind", c.data.At()); err != nil {
			return a, err
		}
		a.DataMounts = readback.DataMounts(tid)
	}
	a.Shm = readback.Shm(tid, c.plan.spec.Shm)
	if c.groups == nil {
		return a, nil
	}
	a.Cgroup = string(c.groups.Version())
	a.Limits, err = readback.Limits(c.groups, tid, c.group, c.plan.spec.Limits)
	return a, err
}

// hasFullCaps reports whether a process has the same capabilities in its own user namespace as root has
// on the host. That is what privileged means there.
func hasFullCaps(tid int) (bool, error) {
	status, err := readback.StatusOf(tid)
	return status.Bounding.Has(unix.CAP_SYS_ADMIN), err
}

// checkRoot checks that the root is made of the image that was resolved.
func (c *container) checkRoot(tid int, root proc.Mount) error {
	lower, _ := root.Option("lowerdir")
	switch {
	case c.copied && readback.SameFile(filepath.Join(dirOf(tid), "root"), filepath.Join(c.dir, "root")):
	case !c.copied && (lower == c.plan.rootfs || lower == quoteOverlay(c.plan.rootfs)):
	default:
		return fmt.Errorf("%w: image: asked for %s, got a root of type %s over %q",
			bench.ErrMismatch, c.plan.image, root.Type, lower)
	}
	return nil
}

// dirOf is the directory of a process or a thread.
func dirOf(id int) string { return fmt.Sprintf("/proc/%d", id) }

// hostThreadID returns the host's number of the thread that will execute the program. It is nearly always
// the main thread, whose number inside is 1.
func hostThreadID(pid, inside int) (int, error) {
	if inside == 1 {
		return pid, nil
	}
	tasks, err := os.ReadDir(filepath.Join(dirOf(pid), "task"))
	if err != nil {
		return 0, err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		status, err := readback.StatusOf(tid)
		if err == nil && slices.Contains(status.Numbers, inside) {
			return tid, nil
		}
	}
	return 0, fmt.Errorf("init's thread %d: %w", inside, os.ErrNotExist)
}
