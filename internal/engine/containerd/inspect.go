package containerd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/ocispec"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

// Inspect reads containerd's record of the container (runtime, argv) and its snapshot. The rest
// comes from the kernel, about the first process, which exists from Create on. If that process is a
// sandbox, the record decides everything except the limits. If the image, snapshotter, root or
// cgroup is not the requested one, the error is bench.ErrMismatch. Once the process has ended,
// Inspect returns what it found before.
func (c *container) Inspect(ctx context.Context) (bench.Applied, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.applied != nil {
		return *c.applied, nil
	}
	a, err := c.inspect(ctx)
	if err != nil {
		return bench.Applied{}, c.failed("inspect", bench.Because(ctx, err))
	}
	c.applied = &a
	return a, nil
}

func (c *container) inspect(ctx context.Context) (bench.Applied, error) {
	a := bench.Applied{Image: c.image.digest, Cgroup: cgroupOf(c.server)}
	record, err := c.container.Info(ctx)
	if err != nil {
		return a, err
	}
	var s specs.Spec
	if err := json.Unmarshal(record.Spec.GetValue(), &s); err != nil {
		return a, fmt.Errorf("the record's specification: %w", err)
	}
	a.Argv = s.Process.Args
	if a.Runtime, err = c.runtime.applied(record.Runtime); err != nil {
		return a, err
	}
	root, err := c.snapshot(ctx, record)
	if err != nil {
		return a, err
	}
	pid := int(c.task.Pid())
	if a.Limits, err = readback.Limits(c.server.groups, pid, groupOf(c.engine.cfg.Run, c.id), c.spec.Limits); err != nil {
		return a, err
	}
	if c.runtime.sandboxed {
		recorded(c.spec, &s, root, &a)
	} else if err := fromKernel(pid, c.spec, root, &a); err != nil {
		return a, err
	}
	// With no_new_privs, runtimes set the filter last, when the container starts.
	if seccomp.Is(s.Linux.Seccomp) && (a.Security.Seccomp != "unconfined" || s.Process.NoNewPrivileges) {
		a.Security.Seccomp = bench.SeccompDocker
	}
	if a.Data, err = c.dataOn(&s, a.Storage); c.runtime.sandboxed {
		a.Shm = ocispec.Shm(&s, c.spec.Shm)
		return a, err
	}
	a.Shm = readback.Shm(pid, c.spec.Shm)
	if c.spec.Storage != "" {
		a.DataMounts = readback.DataMounts(pid)
	}
	return a, err
}

// snapshot returns how containerd mounts the container's root, and checks that the root lies on the
// resolved image.
func (c *container) snapshot(ctx context.Context, record containers.Container) ([]mount.Mount, error) {
	if want := c.image.key.snapshotter; record.Snapshotter != want {
		return nil, fmt.Errorf("%w: snapshotter: asked for %s, got %s", bench.ErrMismatch, want, record.Snapshotter)
	}
	store := c.server.client.SnapshotService(record.Snapshotter)
	i, err := store.Stat(ctx, record.SnapshotKey)
	if err != nil {
		return nil, err
	}
	if i.Parent != c.image.chain || record.Image != c.image.image.Name() {
		return nil, fmt.Errorf("%w: image: asked for %s on %s, got %s on %s",
			bench.ErrMismatch, c.image.image.Name(), c.image.chain, record.Image, i.Parent)
	}
	return store.Mounts(ctx, record.SnapshotKey)
}

// recorded fills in what containerd's record says about a sandbox, in the terms of spec.
func recorded(spec bench.Spec, s *specs.Spec, root []mount.Mount, a *bench.Applied) {
	a.Network = "host"
	if slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
		return n.Type == specs.NetworkNamespace
	}) {
		a.Network = "none"
	}
	if len(root) > 0 {
		a.Storage = root[len(root)-1].Type
	}
	a.Security.ReadOnly = s.Root.Readonly
	a.Security.NoNewPrivileges = s.Process.NoNewPrivileges
	for _, want := range spec.Mounts {
		if slices.ContainsFunc(s.Mounts, func(m specs.Mount) bool { return same(m, ocispec.Mount(want)) }) {
			a.Mounts = append(a.Mounts, want)
		}
	}
}

func same(a, b specs.Mount) bool {
	return a.Destination == b.Destination && a.Type == b.Type && a.Source == b.Source && slices.Equal(a.Options, b.Options)
}

// fromKernel fills in what the kernel says about the process.
func fromKernel(pid int, spec bench.Spec, asked []mount.Mount, a *bench.Applied) error {
	got, root, err := readback.Process(pid, spec.Mounts)
	if err != nil {
		return err
	}
	a.Network, a.Storage, a.Mounts, a.Security = got.Network, got.Storage, got.Mounts, got.Security
	if a.Network != "host" {
		if a.Network, err = netpath.Network(pid, a.Network); err != nil {
			return err
		}
	}
	return checkRoot(root, asked)
}

// checkRoot checks that the root is the one that containerd made. It can tell only if that root has
// a writable directory of its own.
func checkRoot(root proc.Mount, asked []mount.Mount) error {
	if len(asked) == 0 {
		return nil
	}
	for _, option := range asked[len(asked)-1].Options {
		want, ok := strings.CutPrefix(option, "upperdir=")
		if !ok {
			continue
		}
		if got, _ := root.Option("upperdir"); got != want {
			return fmt.Errorf("%w: root: containerd made %s, but the container has a root of type %s over %q",
				bench.ErrMismatch, want, root.Type, got)
		}
	}
	return nil
}

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
