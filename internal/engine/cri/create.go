package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

// check reports the parts of spec that this server does not support.
func (e *Engine) check(ctx context.Context, s *server, spec bench.Spec) error {
	refuse := e.run.Unsupported
	snapshotter, runtime := s.config.Containerd.Snapshotter, e.handlerOf(spec)
	if spec.Network == "none" {
		return refuse("network none: a pod always has the network of the server's CNI configuration or the host's: " +
			"use bridge or host")
	}
	err := cmp.Or(bench.CheckNetwork(spec, "", "host", "bridge"), datadir.Check(spec),
		datadir.CheckMounts(spec, "bind"), seccomp.Check(spec.Security))
	if err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	switch {
	case spec.Network == "bridge" && s.network != "bridge":
		return refuse("network bridge: the server's CNI configuration uses the plugin %q: use host, or a server whose "+
			"configuration uses the plugin bridge", s.network)
	case spec.Reach == bench.ReachPublished && !s.portmap:
		return refuse("network published: the server's CNI configuration has no plugin portmap: add {\"type\": " +
			"\"portmap\", \"capabilities\": {\"portMappings\": true}} to its plugins, or use --network bridge")
	case spec.Shm != 0:
		return refuse("shm: CRI has no size of /dev/shm: leave it out, or use another engine")
	case spec.Storage == "layer" && !image.IsOwn(spec.Image):
		return refuse("storage layer: CRI cannot make the directory %s in a container of image %q: use bind",
			bench.DataDir, spec.Image)
	case !slices.Contains([]string{"", "layer", "bind"}, spec.Storage):
		return refuse("storage %q: CRI has neither volumes nor tmpfs: use layer or bind", spec.Storage)
	case runtime != "" && s.handlers != nil && !slices.Contains(s.handlers, runtime):
		return refuse("runtime %q: the server's configuration does not have it: use one of %s, or add it there",
			runtime, strings.Join(s.handlers, ", "))
	case spec.Snapshotter != "" && spec.Snapshotter != snapshotter:
		return refuse("snapshotter %q: CRI always uses the one in the server's configuration, %q: leave it out",
			spec.Snapshotter, snapshotter)
	case spec.Security.UserNS:
		return refuse("user namespaces: tare does not support them with CRI: use engine runc, crun or podman")
	case spec.Limits.Pids > 0 && !unified():
		return refuse("limit of pids: CRI has none with cgroup version 1: leave it out, or boot with cgroup version 2")
	}
	if spec.Security.Privileged {
		pid, err := e.daemon(ctx, s)
		if err != nil {
			return err
		}
		return e.run.CheckPrivileged(pid)
	}
	return nil
}

// unified reports whether this machine has cgroups of version 2. CRI can set their files by name.
func unified() bool {
	h, err := cgroup.Detect("/")
	return err == nil && h.Version() == cgroup.V2
}

// Create makes a pod sandbox and a container in it, with one call each.
func (e *Engine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	p, err := e.pod(ctx, spec)
	if err != nil {
		return nil, err
	}
	c, err := p.create(ctx)
	if err != nil {
		clean, cancel := owned.CleanUp(ctx)
		defer cancel()
		return nil, errors.Join(err, p.Remove(clean))
	}
	c.removesPod = true
	return c, nil
}

// Sandbox makes a pod sandbox with one call.
func (e *Engine) Sandbox(ctx context.Context, spec bench.Spec) (bench.Sandbox, error) {
	p, err := e.pod(ctx, spec)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// podConfig translates the part of a Spec that concerns the pod.
func (e *Engine) podConfig(s *server, spec bench.Spec, name string) *cri.PodSandboxConfig {
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Uid: name, Namespace: "tare"},
		LogDirectory: e.logs(),
		Labels:       map[string]string{owned.Label: e.cfg.Run, labelName: name},
		Linux: &cri.LinuxPodSandboxConfig{
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: namespaceOptions(spec),
				Privileged:       spec.Security.Privileged,
				Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
			},
		},
	}
	if spec.Network == "bridge" {
		config.Hostname = "tare" // a pod with a network needs one
	}
	if s.cgroups == "systemd" {
		config.Linux.CgroupParent = "system.slice" // containerd has no default for systemd
	}
	return config
}

// namespaceOptions are the kubelet's, except for the network.
func namespaceOptions(spec bench.Spec) *cri.NamespaceOption {
	o := &cri.NamespaceOption{
		Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER, Ipc: cri.NamespaceMode_POD,
	}
	if spec.Network == "bridge" {
		o.Network = cri.NamespaceMode_POD
	}
	return o
}

// containerConfig translates the part of a Spec that concerns the container.
func (e *Engine) containerConfig(spec bench.Spec, l storedImage, data *datadir.Dir, name string) *cri.ContainerConfig {
	config := &cri.ContainerConfig{
		Metadata:   &cri.ContainerMetadata{Name: name},
		Image:      &cri.ImageSpec{Image: l.name},
		WorkingDir: spec.Dir,
		Labels:     map[string]string{owned.Label: e.cfg.Run, labelName: name},
		LogPath:    name + ".log",
		Linux: &cri.LinuxContainerConfig{
			Resources:       resources(spec.Limits),
			SecurityContext: e.securityContext(spec),
		},
	}
	if len(spec.Argv) > 0 {
		config.Command, config.Args = spec.Argv[:1], spec.Argv[1:]
	}
	for _, kv := range spec.Env {
		key, value, _ := strings.Cut(kv, "=")
		config.Envs = append(config.Envs, &cri.KeyValue{Key: key, Value: []byte(value)})
	}
	for _, m := range datadir.Mounts(spec, data) {
		config.Mounts = append(config.Mounts, &cri.Mount{ContainerPath: m.Target, HostPath: m.Source, Readonly: m.ReadOnly})
	}
	return config
}

func (e *Engine) securityContext(spec bench.Spec) *cri.LinuxContainerSecurityContext {
	s := &cri.LinuxContainerSecurityContext{
		NamespaceOptions: namespaceOptions(spec),
		Privileged:       spec.Security.Privileged,
		ReadonlyRootfs:   spec.Security.ReadOnly,
		NoNewPrivs:       spec.Security.NoNewPrivileges,
		Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
	}
	switch spec.Security.Seccomp {
	case "unconfined":
		s.Seccomp.ProfileType = cri.SecurityProfile_Unconfined
	case bench.SeccompDocker:
		s.Seccomp = &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: e.profile()}
	}
	return s
}

func resources(l bench.Limits) *cri.LinuxContainerResources {
	r := &cri.LinuxContainerResources{MemoryLimitInBytes: l.Memory, CpusetCpus: l.CPUSet}
	if l.CPUs > 0 {
		const period = 100_000 // µs
		r.CpuPeriod, r.CpuQuota = period, int64(math.Round(l.CPUs*period))
	}
	if l.Memory > 0 {
		r.MemorySwapLimitInBytes = -1 // otherwise the server limits swap to the same amount
	}
	if l.Pids > 0 {
		r.Unified = map[string]string{"pids.max": strconv.FormatInt(l.Pids, 10)}
	}
	return r
}
