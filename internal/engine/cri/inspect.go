package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/kernel/readback"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

// verbose is the part of a server's verbose answer about a container or sandbox that tare uses.
// containerd and CRI-O agree on these fields.
type verbose struct {
	Pid         int         `json:"pid"`
	Snapshotter string      `json:"snapshotter"`
	RuntimeSpec *specs.Spec `json:"runtimeSpec"` // config.json for the OCI runtime
}

func verboseIn(info map[string]string) (verbose, error) {
	var v verbose
	text, ok := info["info"]
	if !ok {
		return v, errors.New("the server's verbose answer lacks \"info\"")
	}
	return v, json.Unmarshal([]byte(text), &v)
}

// state asks for the state of the container.
func (c *container) state(ctx context.Context) (*cri.ContainerStatus, verbose, error) {
	answer, err := c.pod.server.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: c.id, Verbose: true})
	if err != nil {
		return nil, verbose{}, c.failed(ctx, "inspect", err)
	}
	info, err := verboseIn(answer.Info)
	if err == nil && answer.Status == nil {
		err = errors.New("the server's answer lacks the container's state")
	}
	if err != nil {
		return nil, verbose{}, c.failed(ctx, "inspect", err)
	}
	return answer.Status, info, nil
}

// Inspect reads the configuration that the server gives to the OCI runtime. The network comes from
// the kernel, since the pod runs before its container does, and so do the limits of a running
// container. If the image is not the one that was resolved, the error is bench.ErrMismatch.
func (c *container) Inspect(ctx context.Context) (bench.Applied, error) {
	state, info, err := c.state(ctx)
	if err != nil {
		return bench.Applied{}, err
	}
	l, spec := c.pod.image, info.RuntimeSpec
	if spec == nil || spec.Process == nil || spec.Root == nil || spec.Linux == nil {
		return bench.Applied{}, c.failed(ctx, "inspect", errors.New("the server's answer lacks the OCI configuration"))
	}
	if !slices.Contains(l.refs, state.ImageRef) && !slices.Contains(l.refs, state.ImageId) {
		return bench.Applied{}, c.failed(ctx, "inspect",
			fmt.Errorf("%w: image: asked for %s, got %.200q", bench.ErrMismatch, l.digest, state.ImageRef))
	}
	handler, network, err := c.pod.inspect(ctx)
	if err != nil {
		return bench.Applied{}, err
	}
	a := bench.Applied{
		Runtime:  handler,
		Image:    l.digest,
		Argv:     spec.Process.Args,
		Network:  network,
		Storage:  info.Snapshotter,
		Mounts:   mountsOf(c.pod.spec.Mounts, spec.Mounts),
		Limits:   limitsOf(spec.Linux.Resources),
		Security: securityOf(spec),
		Cgroup:   cgroupOf(c.pod.server),
	}
	if a.Data, err = c.dataOn(info); err != nil {
		return a, c.failed(ctx, "inspect", err)
	}
	if inCgroupNamed(info.Pid, c.id) {
		a.Shm = readback.Shm(info.Pid, 0)
		if c.pod.spec.Storage != "" {
			a.DataMounts = readback.DataMounts(info.Pid)
		}
	}
	a.Limits, err = readback.LimitsSeen(info.Pid, c.id, c.pod.spec.Limits, a.Limits)
	return a, err
}

// dataOn returns what bench.DataDir lies on, see readback.Data: according to the kernel if the
// container runs and is visible from here, otherwise according to the configuration.
func (c *container) dataOn(info verbose) (string, error) {
	if c.pod.spec.Storage == "" {
		return "", nil
	}
	if inCgroupNamed(info.Pid, c.id) {
		return readback.Data(info.Pid, "bind", c.dataAt)
	}
	i := slices.IndexFunc(info.RuntimeSpec.Mounts, func(m specs.Mount) bool { return m.Destination == bench.DataDir })
	switch {
	case i < 0:
		return "layer", nil
	case info.RuntimeSpec.Mounts[i].Source != c.dataAt:
		return readback.DataByEngine("other", info.RuntimeSpec.Mounts[i].Source), nil
	default:
		return readback.DataByEngine("bind", c.dataAt), nil
	}
}

// inspect returns the runtime and the network that the pod really has.
func (p *pod) inspect(ctx context.Context) (handler, network string, err error) {
	answer, err := p.server.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: p.id, Verbose: true})
	if err != nil {
		return "", "", p.engine.failed(ctx, "inspect sandbox "+p.id, err)
	}
	handler = answer.GetStatus().GetRuntimeHandler()
	if handler == "" {
		handler = p.server.config.Containerd.DefaultRuntimeName
	}
	info, err := verboseIn(answer.Info)
	if err == nil {
		network, err = p.network(ctx, info.Pid, answer.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork())
	}
	if err != nil {
		err = p.engine.failed(ctx, "inspect sandbox "+p.id, err)
	}
	return handler, network, err
}

// network is the pod's network as a Spec names it. If its process is not visible from here, it is
// what the server says.
func (p *pod) network(ctx context.Context, pid int, word cri.NamespaceMode) (string, error) {
	if !inCgroupNamed(pid, p.id) {
		if word == cri.NamespaceMode_NODE {
			return "host", nil
		}
		return p.server.network, nil
	}
	daemon, err := p.engine.daemon(ctx, p.server)
	if err != nil {
		return "", err
	}
	host, err := readback.SameNamespace("net", pid, daemon)
	if err != nil {
		return "", err
	}
	if host {
		return "host", nil
	}
	return netpath.Network(pid, p.server.network)
}

// cgroupOf is the version and the driver, such as "v2 systemd".
func cgroupOf(s *server) string {
	version := "v1"
	if unified() {
		version = "v2"
	}
	return version + " " + s.cgroups
}

// mountsOf returns those of the container's actual mounts that the spec asks for.
func mountsOf(want []bench.Mount, got []specs.Mount) []bench.Mount {
	var mounts []bench.Mount
	for _, w := range want {
		i := slices.IndexFunc(got, func(m specs.Mount) bool { return m.Destination == w.Target })
		if i < 0 {
			continue
		}
		m := bench.Mount{Type: got[i].Type, Source: got[i].Source, Target: got[i].Destination}
		m.ReadOnly = slices.Contains(got[i].Options, "ro")
		mounts = append(mounts, m)
	}
	return mounts
}

func limitsOf(r *specs.LinuxResources) bench.Limits {
	var l bench.Limits
	if r == nil {
		return l
	}
	if cpu := r.CPU; cpu != nil {
		l.CPUSet = cpu.Cpus
		if cpu.Quota != nil && *cpu.Quota > 0 && cpu.Period != nil && *cpu.Period > 0 {
			l.CPUs = float64(*cpu.Quota) / float64(*cpu.Period)
		}
	}
	if r.Memory != nil && r.Memory.Limit != nil {
		l.Memory = max(0, *r.Memory.Limit)
	}
	if pids, err := strconv.ParseInt(r.Unified["pids.max"], 10, 64); err == nil {
		l.Pids = pids
	} else if r.Pids != nil && r.Pids.Limit != nil {
		l.Pids = max(0, *r.Pids.Limit)
	}
	return l
}

func securityOf(spec *specs.Spec) bench.Security {
	s := bench.Security{
		ReadOnly:        spec.Root.Readonly,
		NoNewPrivileges: spec.Process.NoNewPrivileges,
		UserNS: slices.ContainsFunc(spec.Linux.Namespaces,
			func(n specs.LinuxNamespace) bool { return n.Type == specs.UserNamespace }),
	}
	switch {
	case spec.Linux.Seccomp == nil:
		s.Seccomp = "unconfined"
	case seccomp.Is(spec.Linux.Seccomp):
		s.Seccomp = bench.SeccompDocker
	}
	if c := spec.Process.Capabilities; c != nil {
		s.Privileged = len(spec.Linux.MaskedPaths) == 0 && slices.Contains(c.Bounding, "CAP_SYS_ADMIN")
	}
	return s
}
