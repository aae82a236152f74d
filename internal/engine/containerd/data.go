package containerd

import (
	"context"
	"slices"

	"github.com/containerd/containerd/v2/core/mount"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// openData makes bench.DataDir in the container's snapshot, writable for every user. Images of
// tare's own contain it already.
func (c *container) openData(ctx context.Context) error {
	if c.spec.Storage != "layer" || image.IsOwn(c.spec.Image) {
		return nil
	}
	layers, err := c.server.client.SnapshotService(c.image.key.snapshotter).Mounts(ctx, c.id)
	if err != nil {
		return err
	}
	return mount.WithTempMount(ctx, layers, datadir.MakeIn)
}

// dataOn returns what bench.DataDir lies on, see readback.Data. If the process is a sandbox,
// containerd's record decides.
func (c *container) dataOn(s *specs.Spec, root string) (string, error) {
	if c.spec.Storage == "" {
		return "", nil
	}
	if !c.runtime.sandboxed {
		return readback.Data(int(c.task.Pid()), "bind", c.data.At())
	}
	i := slices.IndexFunc(s.Mounts, func(m specs.Mount) bool { return m.Destination == bench.DataDir })
	switch {
	case i < 0:
		return "layer " + root, nil
	case s.Mounts[i].Type == "bind" && s.Mounts[i].Source != c.data.At():
		return readback.DataByEngine("other", s.Mounts[i].Source), nil
	default:
		return readback.DataByEngine(s.Mounts[i].Type, s.Mounts[i].Source), nil
	}
}
