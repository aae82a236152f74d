package oci

import (
	"context"
	"fmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
	"github.com/tare-bench/tare/internal/kernel/seccomp"
)

// Inspect asks the kernel about the container's first process, which exists from create on. Only
// argv, which takes effect at start, comes from the config.json that the runtime was given. If the
// root lies over an image that is not the resolved one, or if the cgroup is a different one, the
// error is bench.ErrMismatch. Once the process has ended, Inspect returns what it found before.
func (c *container) Inspect(ctx context.Context) (bench.Applied, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.applied != nil {
		return *c.applied, nil
	}
	inspect := c.inspect
	if c.host.dialect.sandbox {
		inspect = c.inspectSandbox
	}
	a, err := inspect(ctx)
	if err != nil {
		return bench.Applied{}, fmt.Errorf("inspect %s: %w", c.bundle.id, err)
	}
	c.applied = &a
	return a, nil
}

func (c *container) inspect(context.Context) (bench.Applied, error) {
	p, err := c.initPID()
	if err != nil {
		return bench.Applied{}, err
	}
	a, root, err := readback.Process(p.pid, c.spec.Mounts)
	if err != nil {
		return bench.Applied{}, err
	}
	if err := c.checkRoot(root); err != nil {
		return bench.Applied{}, err
	}
	s, err := c.bundle.specification()
	if err != nil {
		return bench.Applied{}, err
	}
	if a.Network != "host" {
		if a.Network, err = netpath.Network(p.pid, a.Network); err != nil {
			return bench.Applied{}, err
		}
	}
	a.Runtime, a.Cgroup = c.host.version.name, string(c.host.groups.Version())+" cgroupfs"
	a.Image, a.Argv = c.bundle.image.Digest(), s.Process.Args
	// With no_new_privs, runtimes set the filter last, when the container starts.
	if seccomp.Is(s.Linux.Seccomp) && (a.Security.Seccomp != "unconfined" || s.Process.NoNewPrivileges) {
		a.Security.Seccomp = bench.SeccompDocker
	}
	if c.spec.Storage != "" {
		if a.Data, err = readback.Data(p.pid, "bind", c.bundle.data.At()); err != nil {
			return a, err
		}
		a.DataMounts = readback.DataMounts(p.pid)
	}
	a.Shm = readback.Shm(p.pid, c.spec.Shm)
	a.Limits, err = readback.Limits(c.host.groups, p.pid, c.bundle.cgroup, c.spec.Limits)
	return a, err
}

// checkRoot checks that the root lies on the image that was resolved.
func (c *container) checkRoot(root proc.Mount) error {
	lower, _ := root.Option("lowerdir")
	want := c.bundle.lowerDir()
	if lower != want && lower != quoteOverlay(want) || c.bundle.userNS && !readback.SameFile(want, c.bundle.base) {
		return fmt.Errorf("%w: image: asked for %s, got a root of type %s over %q",
			bench.ErrMismatch, c.bundle.image.Ref(), root.Type, lower)
	}
	return nil
}
