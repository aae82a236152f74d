package docker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// Leftovers lists the containers, networks and volumes with the label of a dead run or of a compose
// project of it, the interfaces that its networks use, the images under its name, what its builds have
// made, and the directories of its data.
func (e *Engine) Leftovers(ctx context.Context, dead func(run string) bool) ([]bench.Leftover, error) {
	if err := e.reach(ctx); err != nil {
		return nil, err
	}
	left := owned.Leftovers{Engine: e.cfg.Name, IsDead: dead}
	for _, mark := range owned.Marks() {
		if err := e.listLabelled(ctx, mark, left.Add); err != nil {
			return nil, err
		}
	}
	images, err := e.client.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, e.failed("list images", err)
	}
	for _, image := range images.Items {
		for _, tag := range image.RepoTags {
			left.Add(owned.RunOf(tag), owned.KindImage, tag)
		}
	}
	if err := e.buildLeftovers(ctx, &left); err != nil {
		return nil, err
	}
	devices, err := netdev.Leftovers(driver, e.cfg.Name, dead) // the interfaces of these networks
	data, dataErr := e.data.Leftovers(dead)
	return slices.Concat(left.Found, devices, data), errors.Join(err, dataErr)
}

// listLabelled lists the containers, networks and volumes with a label, such as "tare.run" or
// "tare.run=ID", in the order in which they can be removed.
func (e *Engine) listLabelled(ctx context.Context, label string, add func(run, kind, id string)) error {
	with := client.Filters{}.Add("label", label)
	containers, err1 := e.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: with})
	networks, err2 := e.client.NetworkList(ctx, client.NetworkListOptions{Filters: with})
	volumes, err3 := e.client.VolumeList(ctx, client.VolumeListOptions{Filters: with})
	err := cmp.Or(e.failed("list containers", err1), e.failed("list networks", err2), e.failed("list volumes", err3))
	if err != nil {
		return err
	}
	for _, c := range containers.Items {
		add(owned.RunOfLabels(c.Labels), owned.KindContainer, c.ID)
	}
	for _, n := range networks.Items {
		add(owned.RunOfLabels(n.Labels), owned.KindNetwork, n.ID)
	}
	for _, v := range volumes.Items {
		add(owned.RunOfLabels(v.Labels), owned.KindVolume, v.Name)
	}
	return nil
}

// RemoveLeftover removes an object that Leftovers listed, if it still belongs to that run.
func (e *Engine) RemoveLeftover(ctx context.Context, l bench.Leftover) error {
	if err := e.reach(ctx); err != nil {
		return err
	}
	switch {
	case l.Engine != e.cfg.Name || bench.ValidRunID(l.Run) != nil:
	case l.Kind == owned.KindImage && owned.RunOf(l.ID) == l.Run:
		return e.removeImage(ctx, l.ID)
	case l.Kind == owned.KindImage && strings.HasPrefix(l.ID, "sha256:"): // of a build, with all others of it
		_, err := e.removeBuilt(ctx, func(label string) bool { return bench.MarkedBy(label) == l.Run })
		return err
	case l.Kind == owned.KindCache:
		_, err := e.removeRecords(ctx, func(text string) bool { return bench.MarkedBy(text) == l.Run })
		return err
	case l.Kind == owned.KindContainer:
		return e.removeOf(ctx, l.Run, l.ID)
	case l.Kind == owned.KindNetwork:
		return e.removeNetworkOf(ctx, l.Run, l.ID)
	case l.Kind == netdev.Kind:
		return netdev.RemoveLeftover(driver, l)
	case l.Kind == owned.KindVolume:
		return e.removeVolumeOf(ctx, l.Run, l.ID)
	case l.Kind == datadir.Kind:
		return e.data.RemoveLeftover(l)
	}
	return e.run.NotLeftover(l)
}

// removeOf removes a container of that run.
func (e *Engine) removeOf(ctx context.Context, run, id string) error {
	return e.run.RemoveLeft(run, "container "+id, func() (map[string]string, error) {
		answer, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if err != nil || answer.Container.Config == nil {
			return nil, err
		}
		return answer.Container.Config.Labels, nil
	}, isNotFound, func() error { return e.removeContainer(ctx, id) })
}

// removeNetworkOf removes a network of that run.
func (e *Engine) removeNetworkOf(ctx context.Context, run, id string) error {
	return e.run.RemoveLeft(run, "network "+id, func() (map[string]string, error) {
		answer, err := e.client.NetworkInspect(ctx, id, client.NetworkInspectOptions{})
		return answer.Network.Labels, err
	}, isNotFound, func() error { return e.removeNetwork(ctx, id) })
}

// removeVolumeOf removes a volume of that run. Usually it was removed with its container.
func (e *Engine) removeVolumeOf(ctx context.Context, run, name string) error {
	return e.run.RemoveLeft(run, "volume "+name, func() (map[string]string, error) {
		answer, err := e.client.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
		return answer.Volume.Labels, err
	}, isNotFound, func() error { return e.removeVolume(ctx, name) })
}

// removeVolume removes a volume if it exists. The engine refuses that while it is in use.
func (e *Engine) removeVolume(ctx context.Context, name string) error {
	if _, err := e.client.VolumeRemove(ctx, name, client.VolumeRemoveOptions{}); err != nil && !isNotFound(err) {
		return e.failed("remove volume "+name, err)
	}
	return nil
}
