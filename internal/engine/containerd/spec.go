package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/ocispec"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

// check reports the parts of spec that this engine does not support, and finds its runtime.
func (e *Engine) check(s *server, spec bench.Spec) (runtime, error) {
	refuse := func(format string, args ...any) (runtime, error) {
		return runtime{}, e.run.Unsupported(format, args...)
	}
	err := cmp.Or(bench.CheckNetwork(spec, "none", "host", "bridge"), netdev.Check(spec), datadir.Check(spec),
		datadir.CheckMounts(spec, "bind", "tmpfs"), seccomp.Check(spec.Security))
	if err != nil {
		return runtime{}, fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	snapshotter := e.snapshotterOf(spec)
	switch {
	case !slices.Contains([]string{"", "layer", "bind", "tmpfs"}, spec.Storage):
		return refuse("storage %q: containerd has no volumes: use layer, bind or tmpfs", spec.Storage)
	case !slices.Contains(s.snapshotters, snapshotter):
		return refuse("snapshotter %q does not work here: use one of %s",
			snapshotter, strings.Join(s.snapshotters, ", "))
	case spec.Security.UserNS:
		return refuse("user namespaces: some snapshotters of containerd cannot change the owner of an image's files: " +
			"use engine runc, crun or podman")
	}
	r, err := e.runtimeFor(s, spec)
	if err == nil && r.sandboxed {
		err = e.checkSandbox(spec)
	}
	return r, err
}

// checkSandbox reports the parts of spec that gVisor would ignore, or apply to its sandbox instead.
// It could do more with flags, but containerd's shims pass it none.
func (e *Engine) checkSandbox(spec bench.Spec) error {
	for what, asked := range map[string]bool{
		"network host":    spec.Network == "host",
		"network bridge":  spec.Network == "bridge",
		"seccomp":         spec.Security.Seccomp != "",
		"privileged":      spec.Security.Privileged,
		"a limit of pids": spec.Limits.Pids > 0, // it would count the sandbox's own threads
	} {
		if asked {
			return e.run.Unsupported("gVisor's sandbox does not support %s: use another runtime", what)
		}
	}
	return nil
}

// runtimeFor finds the runtime for spec, once for each name.
func (e *Engine) runtimeFor(s *server, spec bench.Spec) (runtime, error) {
	name := spec.Runtime
	if name == "" {
		name = e.cfg.Runtime
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r, ok := e.runtimes[name]; ok {
		return r, nil
	}
	r, err := s.daemon.runtimeOf(name)
	if err != nil {
		return r, fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	e.runtimes[name] = r
	return r, nil
}

// specification is the OCI specification for the container: the client library's default, changed
// by what the Spec asks for.
func (c *container) specification(ctx context.Context) (*oci.Spec, error) {
	spec := c.spec
	options := []oci.SpecOpts{
		oci.WithDefaultUnixDevices,
		oci.WithCgroup(groupOf(c.engine.cfg.Run, c.id)),
		oci.WithMounts(ocispec.Mounts(datadir.Mounts(spec, c.data))),
		process(spec, c.image),
	}
	if spec.Network == "host" {
		options = append(options, oci.WithHostNamespace(specs.NetworkNamespace))
	}
	if spec.Security.ReadOnly {
		options = append(options, oci.WithRootFSReadonly())
	}
	switch {
	case spec.Security.Privileged:
		options = append(options, oci.WithPrivileged, oci.WithAllDevicesAllowed, oci.WithHostDevices)
	case spec.Security.Seccomp != "unconfined":
		options = append(options, filtered) // containerd's default too
	}
	return oci.GenerateSpec(namespaces.WithNamespace(ctx, namespace), nil, &containers.Container{ID: c.id}, options...)
}

func filtered(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	s.Linux.Seccomp = seccomp.Profile()
	return nil
}

// process sets the process that runs inside.
func process(spec bench.Spec, i *unpacked) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		s.Version = ocispec.Version
		ocispec.Limit(s.Linux.Resources, spec.Limits)
		p := s.Process
		p.Rlimits = nil // inherit the daemon's; others may be above the hard limits here
		p.NoNewPrivileges = spec.Security.NoNewPrivileges
		p.User, p.Cwd, p.Args = i.process.User, i.process.Cwd, i.process.Args
		p.Env = image.MergeEnv(i.process.Env, spec.Env)
		if len(spec.Argv) > 0 {
			p.Args = slices.Clone(spec.Argv)
		}
		if spec.Dir != "" {
			p.Cwd = spec.Dir
		}
		if len(p.Args) == 0 {
			return errors.New("the image has neither entry point nor command: name the command to run")
		}
		return nil
	}
}
