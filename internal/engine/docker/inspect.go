package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/readback"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

// Inspect asks the engine. For a container that is not started there is nothing else to ask, so its
// limits and network are as the engine states them. For a running container they come from the
// kernel, if the engine sees processes under the same numbers as tare. If the image is not the one
// that was resolved, the error is bench.ErrMismatch.
func (c *dockerContainer) Inspect(ctx context.Context) (bench.Applied, error) {
	info, err := c.engine.ask(ctx)
	if err != nil {
		return bench.Applied{}, err
	}
	answer, err := c.engine.client.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if err != nil {
		return bench.Applied{}, c.failed("inspect", err)
	}
	got := answer.Container
	if got.HostConfig == nil || got.State == nil {
		return bench.Applied{}, c.failed("inspect", errors.New("the engine's answer lacks State or HostConfig"))
	}
	if got.Config == nil {
		got.Config = &container.Config{}
	}
	if err := c.engine.run.CheckLabels(got.Config.Labels); err != nil {
		c.id = c.name // later calls name the container, and never touch the other one
		return bench.Applied{}, c.failed("inspect", err)
	}
	if got.Image != c.image.ID {
		return bench.Applied{}, c.failed("inspect",
			fmt.Errorf("%w: image: asked for %s, got %s", bench.ErrMismatch, c.image.ID, got.Image))
	}
	h := got.HostConfig
	a := bench.Applied{
		Runtime:  h.Runtime,
		Image:    c.image.Digest,
		Argv:     append([]string{got.Path}, got.Args...),
		Storage:  got.Driver,
		Mounts:   mountsOf(c.spec.Mounts, got),
		Limits:   limitsOf(h.Resources),
		Security: securityOf(h, hasOption(info, "userns")),
		Cgroup:   cgroupOf(info),
		Shm:      h.ShmSize,
	}
	if a.Network, err = c.engine.networkOf(ctx, h.NetworkMode); err != nil {
		return a, c.failed("inspect the network of", err)
	}
	pid := 0 // not visible from here
	if readback.SameNumbers(c.engine.daemon(ctx)) {
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
		// The limits of the group that the process is really in apply, whatever the engine says.
		err = owned.FromKernel(pid, "", c.spec.Limits, &a)
	}
	return a, err
}

func limitsOf(r container.Resources) bench.Limits {
	l := bench.Limits{CPUs: float64(r.NanoCPUs) / 1e9, CPUSet: r.CpusetCpus, Memory: r.Memory}
	if l.CPUs == 0 && r.CPUQuota > 0 && r.CPUPeriod > 0 {
		l.CPUs = float64(r.CPUQuota) / float64(r.CPUPeriod)
	}
	if r.PidsLimit != nil {
		l.Pids = max(0, *r.PidsLimit)
	}
	return l
}

func securityOf(h *container.HostConfig, remapped bool) bench.Security {
	s := bench.Security{
		ReadOnly:   h.ReadonlyRootfs,
		Privileged: h.Privileged,
		UserNS:     remapped && h.UsernsMode != "host",
	}
	for _, option := range h.SecurityOpt {
		if profile, ok := strings.CutPrefix(option, "seccomp="); ok {
			s.Seccomp = profileOf(profile)
		}
		s.NoNewPrivileges = s.NoNewPrivileges || slices.Contains([]string{
			"no-new-privileges", "no-new-privileges=true", "no-new-privileges:true",
		}, option)
	}
	return s
}

// profileOf is the name of a seccomp filter, if it is the profile that tare knows.
func profileOf(text string) string {
	if text == seccomp.JSON() {
		return bench.SeccompDocker
	}
	return text
}

// mountsOf returns those of the container's mounts that the spec asks for, as the engine reports
// them.
func mountsOf(want []bench.Mount, got container.InspectResponse) []bench.Mount {
	var mounts []bench.Mount
	for _, w := range want {
		i := slices.IndexFunc(got.Mounts, func(m container.MountPoint) bool { return m.Destination == w.Target })
		if i < 0 {
			continue
		}
		at := got.Mounts[i]
		m := bench.Mount{Type: string(at.Type), Source: at.Source, Target: at.Destination, ReadOnly: !at.RW}
		if at.Type == mount.TypeTmpfs {
			m.Size = tmpfsSize(got.HostConfig, w.Target)
		}
		mounts = append(mounts, m)
	}
	return mounts
}

func tmpfsSize(h *container.HostConfig, target string) int64 {
	for _, m := range h.Mounts {
		if m.Target == target && m.TmpfsOptions != nil {
			return m.TmpfsOptions.SizeBytes
		}
	}
	return 0
}
