package containerd

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Time limits for removing a container that resists.
const (
	killLimit  = 5 * time.Second  // from SIGKILL to the report of the process's end
	eraseLimit = 30 * time.Second // for all attempts to remove one container
	eraseRetry = 50 * time.Millisecond
)

// errKill means that the regular way to kill a container did not end it in time.
var errKill = errors.New("it was killed but has not ended")

// erase removes a container of a run in any state, or the parts of it that exist. It retries while
// containerd itself is cleaning up, as it does after a shim has died. It is not an error if nothing
// exists.
func (e *Engine) erase(ctx context.Context, s *server, run, id, snapshotter string) error {
	ctx, cancel := context.WithTimeout(ctx, eraseLimit)
	defer cancel()
	for {
		err := e.tryErase(ctx, s, run, id, snapshotter)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return e.failed("remove "+id, errors.Join(context.Cause(ctx), err))
		case <-time.After(eraseRetry):
		}
	}
}

func (e *Engine) tryErase(ctx context.Context, s *server, run, id, snapshotter string) error {
	c, err := s.client.LoadContainer(ctx, id)
	if err == nil {
		err = eraseContainer(ctx, c)
	}
	if err != nil && !isNotFound(err) {
		return err
	}
	group := groupOf(run, id) // in which processes may be left
	err = cmp.Or(s.groups.Kill(ctx, group), s.groups.Remove(ctx, group))
	if err := errors.Join(err, endShims(id)); err != nil {
		return err
	}
	if err := detach(id); err != nil {
		return err
	}
	if err := s.client.SnapshotService(snapshotter).Remove(ctx, id); err != nil && !isNotFound(err) {
		return err
	}
	return nil
}

// endShims kills the shims of a container that containerd has no record of: containerd started them
// and died before it wrote that down.
func endShims(id string) error {
	all, err := proc.All("/")
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range all {
		is := func() bool { return isShim(p.PID, id) }
		if is() {
			errs = append(errs, cgroup.KillProcess(p.PID, is))
		}
	}
	return errors.Join(errs...)
}

// isShim reports whether a process is a shim of the container, by its command
// line, "containerd-shim-NAME -namespace tare -id ID …".
func isShim(pid int, id string) bool {
	args := proc.Args(pid)
	return args != nil && strings.HasPrefix(path.Base(args[0]), "containerd-shim-") &&
		proc.ArgAfter(args, "-namespace") == namespace && proc.ArgAfter(args, "-id") == id
}

// detach unmounts the root of a container whose shim died before it unmounted it. Containerd does
// the same, but only after it has reported the task as gone.
func detach(id string) error {
	mounts, err := proc.Mounts("/", 0)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if !strings.HasSuffix(m.Point, path.Join("/", namespace, id, "rootfs")) {
			continue
		}
		err := unix.Unmount(m.Point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // already unmounted
			return &os.PathError{Op: "unmount", Path: m.Point, Err: err}
		}
	}
	return nil
}

// eraseContainer removes a container that containerd has a record of.
func eraseContainer(ctx context.Context, c containerd.Container) error {
	task, err := c.Task(ctx, nil)
	if err == nil {
		err = eraseTask(ctx, task)
	}
	if err != nil && !isNotFound(err) {
		return err
	}
	return c.Delete(ctx, containerd.WithSnapshotCleanup)
}

func eraseTask(ctx context.Context, task containerd.Task) error {
	status, err := task.Status(ctx)
	if err != nil {
		return err
	}
	if status.Status == containerd.Paused { // what is frozen cannot die
		if err := task.Resume(ctx); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, killLimit)
	defer cancel()
	_, err = task.Delete(limited, containerd.WithProcessKill)
	return err
}
