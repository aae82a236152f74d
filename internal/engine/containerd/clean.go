package containerd

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// labelFilter is a filter for the objects that carry tare's label.
const labelFilter = `labels."` + owned.Label + `"`

// connectTemporarily returns a connection for reading, and a function that closes it. It changes nothing on the
// host.
func (e *Engine) connectTemporarily(ctx context.Context) (*server, func(), error) {
	e.openMu.Lock()
	defer e.openMu.Unlock()
	if e.conn != nil {
		return e.conn, func() {}, nil
	}
	s, err := e.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s, func() { _ = s.client.Close() }, nil // nothing is pending
}

// Leftovers lists the objects in tare's namespace that carry a dead run's label, what builds of dead runs
// have left, the control groups of dead runs, and the directories of their data.
func (e *Engine) Leftovers(ctx context.Context, dead func(run string) bool) ([]bench.Leftover, error) {
	s, done, err := e.connectTemporarily(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	left := &owned.Leftovers{Engine: e.cfg.Name, IsDead: dead}
	for _, list := range []func(context.Context, *server, func(run, kind, id string)) error{
		listContainers, listImages, listGroups,
	} {
		if err := list(ctx, s, left.Add); err != nil {
			return nil, e.failed("list leftovers", err)
		}
	}
	buildErr := e.buildLeftovers(ctx, s, left) // what else is left is listed all the same
	devices, err := netdev.Leftovers(e.cfg.Name, e.cfg.Name, dead)
	data, dataErr := e.data.Leftovers(dead)
	return slices.Concat(left.Found, devices, data), errors.Join(buildErr, err, dataErr)
}

// listContainers lists the containers, then the snapshots that belong to no container.
func listContainers(ctx context.Context, s *server, add func(run, kind, id string)) error {
	containers, err := s.client.ContainerService().List(ctx, labelFilter)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, c := range containers {
		known[path.Join(c.Snapshotter, c.SnapshotKey)] = true
		add(c.Labels[owned.Label], owned.KindContainer, path.Join(c.Snapshotter, c.ID))
	}
	for _, snapshotter := range s.snapshotters {
		err := s.client.SnapshotService(snapshotter).Walk(ctx, func(_ context.Context, i snapshots.Info) error {
			if id := path.Join(snapshotter, i.Name); !known[id] {
				add(i.Labels[owned.Label], owned.KindSnapshot, id)
			}
			return nil
		}, labelFilter)
		if err != nil && !isNotFound(err) { // a snapshotter that was never used is "not found"
			return err
		}
	}
	return nil
}

func listImages(ctx context.Context, s *server, add func(run, kind, id string)) error {
	images, err := s.client.ImageService().List(ctx, labelFilter)
	for _, i := range images {
		add(i.Labels[owned.Label], owned.KindImage, i.Name)
	}
	return err
}

func listGroups(_ context.Context, s *server, add func(run, kind, id string)) error {
	groups, err := s.groups.List(groupsOf(""))
	for _, g := range groups {
		add(path.Base(g), owned.KindGroup, g)
	}
	return err
}

// RemoveLeftover removes an object that Leftovers listed, if it still belongs to that run.
func (e *Engine) RemoveLeftover(ctx context.Context, l bench.Leftover) error {
	if err := bench.ValidRunID(l.Run); err != nil {
		return err
	}
	s, done, err := e.connectTemporarily(ctx)
	if err != nil {
		return err
	}
	defer done()
	snapshotter, id := path.Split(l.ID)
	snapshotter = strings.TrimSuffix(snapshotter, "/")
	known := slices.Contains(s.snapshotters, snapshotter)
	switch {
	case l.Engine != e.cfg.Name:
	case isOfBuild(l):
		err = e.removeOfBuild(ctx, s, l)
	case l.Kind == datadir.Kind:
		err = e.data.RemoveLeftover(l)
	case l.Kind == owned.KindContainer && known:
		err = e.run.RemoveLeft(l.Run, "container "+id, func() (map[string]string, error) {
			c, err := s.client.ContainerService().Get(ctx, id)
			return c.Labels, err
		}, isNotFound, func() error { return e.erase(ctx, s, l.Run, id, snapshotter) })
	case l.Kind == owned.KindSnapshot && known:
		store := s.client.SnapshotService(snapshotter)
		err = e.run.RemoveLeft(l.Run, "snapshot "+id, func() (map[string]string, error) {
			i, err := store.Stat(ctx, id)
			return i.Labels, err
		}, isNotFound, func() error { return e.removed("snapshot "+id, store.Remove(ctx, id)) })
	case l.Kind == owned.KindImage:
		err = e.run.RemoveLeft(l.Run, "image "+l.ID, func() (map[string]string, error) {
			i, err := s.client.ImageService().Get(ctx, l.ID)
			return i.Labels, err
		}, isNotFound, func() error { return e.removeImage(ctx, s, l.ID) })
	case l.Kind == netdev.Kind:
		err = netdev.RemoveLeftover(e.cfg.Name, l)
	case l.Kind == owned.KindGroup && l.ID == groupsOf(l.Run):
	default:
		return e.run.NotLeftover(l)
	}
	return errors.Join(err, e.deleteNamespace(ctx, s), s.groups.Prune(groupsOf(l.Run)))
}

// RemoveData implements bench.DataHolder.
func (e *Engine) RemoveData(_ context.Context, spec bench.Spec) error {
	return e.data.RemoveNamed(spec)
}

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
