package docker

import (
	"bytes"
	"context"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
)

// mountsFor are the mounts of a container. A volume is the container's own: the engine makes it,
// and removes it with the container unless it has a name.
func (e *Engine) mountsFor(spec bench.Spec, data *datadir.Dir) []mount.Mount {
	var mounts []mount.Mount
	for _, m := range datadir.Mounts(spec, data) {
		mounts = append(mounts, mountOf(m))
	}
	if spec.Storage == "volume" {
		mounts = append(mounts, mount.Mount{
			Type: mount.TypeVolume, Target: bench.DataDir, Source: e.volumeOf(spec),
			VolumeOptions: &mount.VolumeOptions{Labels: map[string]string{owned.Label: e.cfg.Run}},
		})
	}
	return mounts
}

// openData makes bench.DataDir in the layer or in the volume, writable for every user. Images of
// tare's own contain the directory already. Nothing has shown yet that the ID is this container's, so
// the call names the container.
func (c *dockerContainer) openData(ctx context.Context) error {
	if image.IsOwn(c.spec.Image) || c.spec.Storage != "layer" && c.spec.Storage != "volume" {
		return nil
	}
	archive, err := datadir.Archive()
	if err != nil {
		return err
	}
	_, err = c.engine.client.CopyToContainer(ctx, c.name,
		client.CopyToContainerOptions{DestinationPath: "/", Content: bytes.NewReader(archive)})
	return c.failed("make "+bench.DataDir, err)
}

// dataOf returns what bench.DataDir lies on according to the engine, and where that is on the host.
// The kind is "other" for a bind mount of a directory that tare did not ask for.
func (c *dockerContainer) dataOf(got container.InspectResponse) (kind, source string) {
	for _, m := range got.Mounts {
		if m.Destination != bench.DataDir {
			continue
		}
		if m.Type == mount.TypeBind && m.Source != c.data.At() {
			return "other", m.Source
		}
		return string(m.Type), m.Source
	}
	return "layer", ""
}

// volumeOf is the name of the volume that outlives containers of spec. It is empty for a volume
// that the engine names and removes with its container.
func (e *Engine) volumeOf(spec bench.Spec) string {
	if spec.DataName == "" || spec.Storage != "volume" {
		return ""
	}
	return "tare-" + e.cfg.Run + "-" + e.cfg.Name + "-" + spec.DataName
}

// keepVolume notes a volume that outlives its containers, for Close.
func (e *Engine) keepVolume(spec bench.Spec) {
	if name := e.volumeOf(spec); name != "" {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.volumes[name] = true
	}
}

// RemoveData implements bench.DataHolder.
func (e *Engine) RemoveData(ctx context.Context, spec bench.Spec) error {
	if name := e.volumeOf(spec); name != "" {
		return e.removeVolumeOf(ctx, e.cfg.Run, name)
	}
	return e.data.RemoveNamed(spec)
}
