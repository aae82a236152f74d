package containerd

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/snapshots"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/netdev"
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

// Leftovers lists the objects in tare's namespace that carry a dead run's label, the control groups
// of dead runs, and the directories of their data.
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
	devices, err := netdev.Leftovers(e.cfg.Name, e.cfg.Name, dead)
	data, dataErr := e.data.Leftovers(dead)
	return slices.Concat(left.Found, devices, data), errors.Join(err, dataErr)
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
