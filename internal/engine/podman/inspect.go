package podman

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// An inspection is the part of Podman's answer about a container that tare uses.
type inspection struct {
	Path       string
	Args       []string
	Image      string // ID, without "sha256:"
	OCIRuntime string
	Driver     string
	State      struct {
		Status    string
		Running   bool
		Pid       int
		ExitCode  int
		OOMKilled bool
		Health    struct{ Status string }
	}
	Config struct {
		Labels map[string]string
	}
	HostConfig *struct {
		NetworkMode    string
		Privileged     bool
		ReadonlyRootfs bool
		SecurityOpt    []string
		Tmpfs          map[string]string // options by target
		NanoCpus       int64
		CPUPeriod      uint64 `json:"CpuPeriod"`
		CPUQuota       int64  `json:"CpuQuota"`
		CpusetCpus     string
		Memory         int64
		PidsLimit      int64
		ShmSize        int64
		IDMappings     *struct{ UIDMap []string } // nil without a user namespace
	}
	NetworkSettings networking
	Mounts          []struct {
		Type        string
		Name        string // of a volume
		Source      string
		Destination string
		RW          bool
	}
}

func (c *container) inspect(ctx context.Context) (*inspection, error) {
	return c.client.inspectContainer(ctx, c.id)
}

func (c *client) inspectContainer(ctx context.Context, id string) (*inspection, error) {
	got := &inspection{}
	if err := c.get(ctx, "/containers/"+id+"/json", got); err != nil {
		return nil, err
	}
	if got.HostConfig == nil {
		return nil, errors.New("the answer of Podman lacks HostConfig")
	}
	return got, nil
}

// Inspect asks Podman. For a container that is not started there is nothing else to ask, so its
// limits and network are as Podman states them. For a running container they come from the kernel,
// if the service sees processes under the same numbers as tare. If the image is not the one that
// was resolved, the error is bench.ErrMismatch.
func (c *container) Inspect(ctx context.Context) (bench.Applied, error) {
	got, err := c.inspect(ctx)
	if err != nil {
		return bench.Applied{}, c.failed("inspect", err)
	}
	if err := c.run.CheckLabels(got.Config.Labels); err != nil {
		c.id = c.name // later calls name the container, and never touch the other one
		return bench.Applied{}, c.failed("inspect", err)
	}
	digest := "sha256:" + got.Image
	if digest != c.image.Digest {
		return bench.Applied{}, c.failed("inspect",
			fmt.Errorf("%w: image: asked for %s, got %s", bench.ErrMismatch, c.image.Digest, digest))
	}
	a := bench.Applied{
		Runtime:  got.OCIRuntime,
		Image:    digest,
		Argv:     append([]string{got.Path}, got.Args...),
		Storage:  got.Driver,
		Mounts:   mountsOf(c.spec.Mounts, got),
		Limits:   limitsOf(got),
		Security: c.securityOf(got),
		Cgroup:   c.client.cgroup(),
		Shm:      got.HostConfig.ShmSize,
	}
	if a.Network, err = c.client.networkOf(ctx, got); err != nil {
		return a, c.failed("inspect the network of", err)
	}
	pid := 0 // not visible from here
	if c.client.sameProcesses(ctx) {
		pid = got.State.Pid
	}
	if c.spec.Storage != "" {
		kind, source := c.dataOf(got)
		if a.Data, err = readback.DataOr(pid, kind, source); err != nil {
			return a, c.failed("inspect", err)
		}
		a.DataMounts = readback.DataMounts(pid)
	}
	if pid > 0 {
		a.Shm = readback.Shm(pid, c.spec.Shm)
		err = owned.FromKernel(pid, c.id, c.spec.Limits, &a)
	}
	return a, err
}

func limitsOf(got *inspection) bench.Limits {
	h := got.HostConfig
	l := bench.Limits{CPUs: float64(h.NanoCpus) / 1e9, CPUSet: h.CpusetCpus, Memory: h.Memory, Pids: max(0, h.PidsLimit)}
	if l.CPUs == 0 && h.CPUQuota > 0 && h.CPUPeriod > 0 {
		l.CPUs = float64(h.CPUQuota) / float64(h.CPUPeriod)
	}
	return l
}

func (c *container) securityOf(got *inspection) bench.Security {
	h := got.HostConfig
	s := bench.Security{
		ReadOnly:        h.ReadonlyRootfs,
		Privileged:      h.Privileged,
		UserNS:          c.client.Host.Security.Rootless || h.IDMappings != nil,
		NoNewPrivileges: slices.Contains(h.SecurityOpt, "no-new-privileges"),
	}
	for _, option := range h.SecurityOpt {
		if profile, ok := strings.CutPrefix(option, "seccomp="); ok {
			s.Seccomp = profile
			if profile == c.profile {
				s.Seccomp = bench.SeccompDocker
			}
		}
	}
	return s
}

// mountsOf returns those of the container's mounts that the spec asks for, as Podman reports them.
func mountsOf(want []bench.Mount, got *inspection) []bench.Mount {
	var mounts []bench.Mount
	for _, w := range want {
		if options, ok := got.HostConfig.Tmpfs[w.Target]; ok {
			mounts = append(mounts, tmpfsOf(w.Target, options))
		}
		for _, m := range got.Mounts {
			if m.Destination == w.Target {
				mounts = append(mounts, bench.Mount{Type: m.Type, Source: m.Source, Target: m.Destination, ReadOnly: !m.RW})
			}
		}
	}
	return mounts
}

// tmpfsOf reads the mount options of a tmpfs. A size that is not a number of bytes counts as 0,
// because tare never asks for one.
func tmpfsOf(target, options string) bench.Mount {
	m := bench.Mount{Type: "tmpfs", Target: target}
	for option := range strings.SplitSeq(options, ",") {
		if size, ok := strings.CutPrefix(option, "size="); ok {
			m.Size, _ = strconv.ParseInt(size, 10, 64)
		}
		m.ReadOnly = m.ReadOnly || option == "ro"
	}
	return m
}

// groupOf is the cgroup of a container's first process. Podman of an ordinary user may make no
// group; the process is then in the user's own.
func groupOf(h *cgroup.Hierarchy, pid int, id string) (string, error) {
	group, err := readback.CgroupPath(h, pid)
	if err == nil && !strings.Contains(group, id) {
		err = fmt.Errorf("%w: container %.12s has no control group of its own", bench.ErrUnsupported, id)
	}
	return group, err
}

// Cgroup returns the path of a running container's group. Podman removes the group when the
// container has exited.
func (e *Engine) Cgroup(ctx context.Context, c bench.Container) (string, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return "", err
	}
	pid, err := e.Pid(ctx, c)
	if err != nil {
		return "", err
	}
	h, err := cgroup.Detect("/")
	if errors.Is(err, cgroup.ErrNone) {
		return "", fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	if err != nil {
		return "", err
	}
	return groupOf(h, pid, own.id)
}
