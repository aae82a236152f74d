package oci

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/proc"
)

// Inspect asks the kernel about the container's first process, which exists
// from create on. Only what is decided at start, its argv, is taken from the
// config.json that the runtime was given. A root over another image than the
// one resolved, and another cgroup, are bench.ErrMismatch. Once the process has
// ended, Inspect returns what it found before.
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
	a := bench.Applied{Runtime: c.host.version.name, Cgroup: string(c.host.groups.Version()) + " cgroupfs"}
	p, err := c.found()
	if err != nil {
		return bench.Applied{}, err
	}
	pid := strconv.Itoa(p.pid)
	for _, read := range []func(pid string, a *bench.Applied) error{c.argv, c.fileSystems, c.network, c.security, c.limits} {
		if err := read(pid, &a); err != nil {
			return bench.Applied{}, err
		}
	}
	return a, nil
}

func (c *container) argv(_ string, a *bench.Applied) error {
	s, err := c.bundle.specification()
	if err != nil {
		return err
	}
	a.Argv = s.Process.Args
	return nil
}

// fileSystems reads the root, which image it lies on, and the mounts that
// were asked for, as they are.
func (c *container) fileSystems(pid string, a *bench.Applied) error {
	number, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	mounts, err := proc.Mounts("/", number)
	if err != nil {
		return err
	}
	visible := make(map[string]proc.Mount, len(mounts))
	for _, m := range mounts { // a later one hides an earlier one
		visible[m.Point] = m
	}
	root := visible["/"]
	a.Storage = root.Type
	a.Security.ReadOnly = root.ReadOnly()
	lower, _ := root.Option("lowerdir")
	if lower != c.bundle.base && lower != quoteOverlay(c.bundle.base) {
		return fmt.Errorf("%w: image: asked for %s, got a root of type %s over %q", bench.ErrMismatch, c.bundle.image.Ref(), root.Type, lower)
	}
	a.Image = c.bundle.image.Digest()
	for _, want := range c.spec.Mounts {
		if got, ok := visible[filepath.Clean(want.Target)]; ok {
			a.Mounts = append(a.Mounts, asApplied(pid, want, got))
		}
	}
	return nil
}

// asApplied describes a mount in the words of the one that was asked for,
// wherever the kernel says that it is the same.
func asApplied(pid string, want bench.Mount, got proc.Mount) bench.Mount {
	m := bench.Mount{Type: got.Type, Target: want.Target, ReadOnly: got.ReadOnly()}
	if want.Type == "bind" {
		inside := filepath.Join("/proc", pid, "root", want.Target)
		if sameFile(inside, want.Source) {
			m.Type, m.Source = "bind", want.Source
		}
		return m
	}
	if size, ok := got.Option("size"); ok {
		m.Size = kibibytes(size)
	}
	if pages(m.Size) == pages(want.Size) {
		m.Size = want.Size
	}
	return m
}

func sameFile(a, b string) bool {
	fa, errA := os.Stat(a)
	fb, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(fa, fb)
}

// kibibytes reads a size such as "980k"; -1 if it cannot.
func kibibytes(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, "k"), 10, 64)
	if err != nil {
		return -1
	}
	return n << 10
}

// pages is in how many pages the kernel keeps n bytes.
func pages(n int64) int64 {
	size := int64(os.Getpagesize())
	return (n + size - 1) / size
}

// network tells "host", this process's own network namespace, from "none",
// another one that has no interface but loopback.
func (c *container) network(pid string, a *bench.Applied) error {
	same, err := sameNamespace(pid, "net")
	if err != nil {
		return err
	}
	text, err := procFile(pid, "net/dev")
	if err != nil {
		return err
	}
	switch n := interfaces(text); {
	case same:
		a.Network = "host"
	case n == 0:
		a.Network = "none"
	default:
		a.Network = fmt.Sprintf("own, with %d interfaces", n)
	}
	return nil
}

// sameNamespace reports whether a process is in this process's namespace.
func sameNamespace(pid, kind string) (bool, error) {
	theirs, err := os.Readlink(filepath.Join("/proc", pid, "ns", kind))
	if err != nil {
		return false, err
	}
	ours, err := os.Readlink(filepath.Join("/proc/self/ns", kind))
	return theirs == ours, err
}

func (c *container) security(pid string, a *bench.Applied) error {
	theirs, err := statusOf(pid)
	if err != nil {
		return err
	}
	ours, err := c.host.own()
	if err != nil {
		return err
	}
	sameUser, err := sameNamespace(pid, "user")
	if err != nil {
		return err
	}
	s := &a.Security
	s.Seccomp = "unconfined"
	if theirs.seccomp != ours.seccomp {
		s.Seccomp = "filtered"
	}
	s.NoNewPrivileges = theirs.noNewPrivs
	s.UserNS = !sameUser
	s.Privileged = sameUser && theirs.bounding == ours.bounding
	return nil
}

// limits reads what the kernel holds. It rounds memory down to whole pages;
// that is what was asked for.
func (c *container) limits(pid string, a *bench.Applied) error {
	number, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	groups, err := c.host.groups.PathOf(number)
	if err != nil {
		return err
	}
	got, ok := groups["memory"]
	if !ok {
		got = groups[""] // version 2
	}
	if got != c.bundle.cgroup {
		return fmt.Errorf("%w: process %s is in cgroup %q instead of %s", bench.ErrMismatch, pid, got, c.bundle.cgroup)
	}
	l, err := c.host.groups.Limits(c.bundle.cgroup)
	if err != nil {
		return err
	}
	a.Limits = bench.Limits{CPUs: l.CPUs, CPUSet: l.CPUSet, Memory: l.Memory, Pids: l.Pids}
	page := int64(os.Getpagesize())
	if want := c.spec.Limits.Memory; want/page == l.Memory/page && (want == 0) == (l.Memory == 0) {
		a.Limits.Memory = want
	}
	return nil
}
