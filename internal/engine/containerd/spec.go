package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/typeurl/v2"
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
		"network socket":  spec.Reach == bench.ReachSocket,
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
	if spec.Shm > 0 {
		options = append(options, oci.WithDevShmSize((spec.Shm+1023)/1024)) // in KiB
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

// A runtime is what runs a container: a shim, and the OCI runtime that the shim runs if it can run
// several.
type runtime struct {
	name   string // as in a Spec
	shim   string // "io.containerd.NAME.vN"
	binary string // absolute path of the OCI runtime; empty = the shim's own choice

	// sandboxed: the host's kernel does not see the processes inside. The process that containerd
	// reports is the sandbox.
	sandboxed bool
}

// options are the options for the shim.
func (r runtime) options() any {
	if r.binary == "" {
		return nil
	}
	return &options.Options{BinaryName: r.binary}
}

const gvisor = "io.containerd.runsc.v1" // the shim of gVisor

// runtimeOf finds a runtime by its name: the default, the name or path of an OCI runtime, or
// containerd's name of a shim.
func (d daemon) runtimeOf(name string) (runtime, error) {
	refuse := func(err error, advice string, args ...any) (runtime, error) {
		return runtime{}, fmt.Errorf("%w: runtime %q: %w: %s", bench.ErrUnsupported, name, err, fmt.Sprintf(advice, args...))
	}
	switch {
	case name == "", name == "runc":
		return runtime{name: "runc", shim: plugins.RuntimeRuncV2}, nil
	case name == "runsc" && d.has(gvisor):
		return runtime{name: "runsc", shim: gvisor, sandboxed: true}, nil
	case strings.HasPrefix(name, "io.containerd."):
		if !d.has(name) {
			return refuse(fmt.Errorf("containerd cannot find %s", shimBinary(name)), "install it, or use an OCI "+
				"runtime such as crun")
		}
		return runtime{name: name, shim: name, sandboxed: name == gvisor}, nil
	}
	binary, err := d.lookPath(name)
	if err != nil { // tare's own PATH is enough, because the shim gets a full path
		binary, err = exec.LookPath(name)
	}
	if err != nil {
		return refuse(err, "install it, or use another runtime")
	}
	return runtime{
		name: name, shim: plugins.RuntimeRuncV2, binary: binary, sandboxed: filepath.Base(binary) == "runsc",
	}, nil
}

// has reports whether containerd can find the program of a shim.
func (d daemon) has(shim string) bool {
	_, err := d.lookPath(shimBinary(shim))
	return err == nil
}

// shimBinary is the name of a shim's program, derived as containerd does.
func shimBinary(shim string) string {
	parts := strings.Split(shim, ".")
	if len(parts) < 3 {
		return shim
	}
	return "containerd-shim-" + strings.Join(parts[len(parts)-2:], "-")
}

// applied is the runtime that containerd recorded for a container: the name of r if it is r.
func (r runtime) applied(got containers.RuntimeInfo) (string, error) {
	o := new(options.Options)
	if got.Options != nil && got.Options.GetTypeUrl() != "" {
		if err := typeurl.UnmarshalTo(got.Options, o); err != nil {
			return "", fmt.Errorf("options of runtime %s: %w", got.Name, err)
		}
	}
	switch {
	case got.Name == r.shim && o.BinaryName == r.binary:
		return r.name, nil
	case o.BinaryName != "":
		return o.BinaryName, nil
	}
	return got.Name, nil
}
