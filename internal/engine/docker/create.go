package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

// check reports the parts of spec that this engine does not support.
func (e *Engine) check(ctx context.Context, info *system.Info, spec bench.Spec) error {
	refuse := e.run.Unsupported
	err := cmp.Or(bench.CheckNetwork(spec, "none", "host", "bridge", "macvlan"), datadir.Check(spec),
		datadir.CheckMounts(spec, "bind", "tmpfs"), seccomp.Check(spec.Security))
	if err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	if err := e.checkReach(info, spec); err != nil {
		return err
	}
	_, hasRuntime := info.Runtimes[spec.Runtime]
	switch {
	case !slices.Contains([]string{"", "layer", "volume", "bind", "tmpfs"}, spec.Storage):
		return refuse("storage %q: use layer, volume, bind or tmpfs", spec.Storage)
	case spec.Storage == "volume" && spec.Security.ReadOnly && !image.IsOwn(spec.Image):
		return refuse("storage volume with read_only: users of image %q could not write to the volume: use bind or "+
			"tmpfs", spec.Image)
	case spec.Runtime != "" && !hasRuntime:
		return refuse("runtime %[1]q: the engine does not have it: start it with `dockerd --add-runtime %[1]s=%[2]s`, "+
			"or put \"runtimes\": {%[1]q: {\"path\": %[2]q}} into its daemon.json", spec.Runtime, pathOf(spec.Runtime))
	case spec.Snapshotter != "" && spec.Snapshotter != info.Driver:
		return refuse("snapshotter %q: this engine uses the storage driver %s: leave the snapshotter out",
			spec.Snapshotter, info.Driver)
	case spec.Security.UserNS && !hasOption(info, "userns"):
		return refuse("user namespaces are off: start the engine with userns-remap")
	case spec.Security.UserNS && spec.Security.Privileged:
		return refuse("a privileged container cannot have a user namespace of its own: use only one of the two")
	}
	if spec.Security.Privileged {
		if err := e.run.CheckPrivileged(e.daemon(ctx)); err != nil {
			return err
		}
	}
	return e.checkLimits(info, spec.Limits)
}

// checkLimits refuses limits for which the engine has no control group. The engine itself would
// ignore most of them with a warning.
func (e *Engine) checkLimits(info *system.Info, l bench.Limits) error {
	for _, c := range []struct {
		controller string
		asked, has bool
	}{
		{"cpu", l.CPUs > 0, info.CPUCfsPeriod && info.CPUCfsQuota},
		{"cpuset", l.CPUSet != "", info.CPUSet},
		{"memory", l.Memory > 0, info.MemoryLimit},
		{"pids", l.Pids > 0, info.PidsLimit},
	} {
		if c.asked && !c.has {
			return e.run.Unsupported("limit of %s: this engine has no such control group: run dockerd as root, or "+
				"delegate the controller to its user", c.controller)
		}
	}
	return nil
}

// pathOf is the path of a runtime on this host, or its likely path on another.
func pathOf(runtime string) string {
	if path, err := exec.LookPath(runtime); err == nil && filepath.IsAbs(path) {
		return path
	}
	return "/usr/bin/" + runtime
}

// Create makes a container with one call.
func (e *Engine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	info, err := e.ask(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.check(ctx, info, spec); err != nil {
		return nil, err
	}
	l, err := e.images.Load(ctx, store{e}, spec.Image)
	if err != nil {
		return nil, err
	}
	c := &dockerContainer{engine: e, image: l, spec: spec}
	if c.data, err = e.data.Take(spec); err != nil {
		return nil, e.failed("create", err)
	}
	e.keepVolume(spec)
	if err := c.make(ctx, info); err != nil {
		return nil, errors.Join(err, c.data.Remove())
	}
	return c, nil
}

// make makes the container. If it fails, it leaves nothing behind.
func (c *dockerContainer) make(ctx context.Context, info *system.Info) error {
	c.name = c.engine.prefix + strconv.FormatInt(c.engine.number.Add(1), 10)
	options, err := c.options(info, c.name)
	if err == nil {
		options.HostConfig.NetworkMode, err = c.engine.modeOf(ctx, c.spec)
	}
	if err == nil {
		err = c.join(&options)
	}
	if err != nil {
		return err
	}
	call := func(ctx context.Context) (string, error) {
		made, err := c.engine.client.ContainerCreate(ctx, options)
		return made.ID, err
	}
	if c.id, err = c.engine.run.Create(ctx, c.name, call, c.engine.removeContainer); err != nil {
		return err
	}
	if err := c.openData(ctx); err != nil {
		clean, cancel := owned.CleanUp(ctx)
		defer cancel()
		return errors.Join(err, c.engine.removeContainer(clean, c.name))
	}
	return nil
}

// options translates a Spec, except for the network.
func (c *dockerContainer) options(info *system.Info, name string) (client.ContainerCreateOptions, error) {
	spec := c.spec
	config := &container.Config{
		Image:      c.image.Name,
		Env:        spec.Env,
		WorkingDir: spec.Dir,
		Labels:     map[string]string{owned.Label: c.engine.cfg.Run},
	}
	if len(spec.Argv) > 0 {
		config.Entrypoint, config.Cmd = spec.Argv[:1], spec.Argv[1:]
	}
	host := &container.HostConfig{
		Runtime:        spec.Runtime,
		Privileged:     spec.Security.Privileged,
		ReadonlyRootfs: spec.Security.ReadOnly,
		SecurityOpt:    securityOptions(spec.Security),
		Resources:      resources(spec.Limits),
		Mounts:         c.engine.mountsFor(spec, c.data),
		ShmSize:        spec.Shm, // 0 = the engine's default
	}
	if hasOption(info, "userns") && !spec.Security.UserNS {
		host.UsernsMode = "host"
	}
	err := publish(spec, config, host)
	return client.ContainerCreateOptions{Name: name, Config: config, HostConfig: host}, err
}

func securityOptions(s bench.Security) []string {
	var options []string
	switch s.Seccomp {
	case "":
	case bench.SeccompDocker:
		options = append(options, "seccomp="+seccomp.JSON())
	default:
		options = append(options, "seccomp="+s.Seccomp)
	}
	if s.NoNewPrivileges {
		options = append(options, "no-new-privileges")
	}
	return options
}

func resources(l bench.Limits) container.Resources {
	r := container.Resources{
		NanoCPUs:   int64(math.Round(l.CPUs * 1e9)),
		CpusetCpus: l.CPUSet,
		Memory:     l.Memory,
	}
	if l.Memory > 0 {
		r.MemorySwap = -1 // otherwise the engine limits swap to the same amount
	}
	if l.Pids > 0 {
		r.PidsLimit = &l.Pids
	}
	return r
}

func mountOf(m bench.Mount) mount.Mount {
	to := mount.Mount{Type: mount.Type(m.Type), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
	if m.Type == "tmpfs" && m.Size > 0 {
		to.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: m.Size}
	}
	return to
}

// publish publishes ports of the container on the host.
func publish(spec bench.Spec, config *container.Config, host *container.HostConfig) error {
	if spec.Reach != bench.ReachPublished {
		return nil
	}
	config.ExposedPorts = network.PortSet{}
	host.PortBindings = network.PortMap{}
	for _, p := range spec.Ports {
		port, ok := network.PortFrom(p.Container, network.IPProtocol(p.Protocol))
		if !ok {
			return fmt.Errorf("invalid port: %d/%s", p.Container, p.Protocol)
		}
		outside := network.PortBinding{HostIP: p.OnHost()}
		if p.Host != 0 {
			outside.HostPort = strconv.Itoa(int(p.Host))
		}
		config.ExposedPorts[port] = struct{}{}
		host.PortBindings[port] = append(host.PortBindings[port], outside)
	}
	return nil
}
