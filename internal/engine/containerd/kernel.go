package containerd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/cgroup"
	"github.com/tare-bench/tare/internal/proc"
)

// first is the first process of a container, as the kernel has it.
type first struct {
	pid    int
	groups *cgroup.Hierarchy
	group  string // where it should be
}

func (p first) file(name string) string {
	return filepath.Join("/proc", strconv.Itoa(p.pid), name)
}

// asApplied describes a mount in the words of the one that was asked for,
// wherever the kernel says that it is the same.
func (p first) asApplied(want bench.Mount, got proc.Mount) bench.Mount {
	m := bench.Mount{Type: got.Type, Target: want.Target, ReadOnly: got.ReadOnly()}
	if want.Type == "bind" {
		if sameFile(filepath.Join(p.file("root"), want.Target), want.Source) {
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
func (p first) network(a *bench.Applied) error {
	same, err := p.shares("net")
	if err != nil {
		return err
	}
	text, err := proc.ReadFile(p.file("net/dev"), 1<<20)
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

// interfaces counts the network interfaces in the text of /proc/PID/net/dev
// that are not loopback: below two lines of heading, one line each.
func interfaces(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		name, _, ok := bytes.Cut(line, []byte(":"))
		if ok && string(bytes.TrimSpace(name)) != "lo" {
			n++
		}
	}
	return n
}

// shares reports whether the process is in this process's namespace.
func (p first) shares(kind string) (bool, error) {
	theirs, err := os.Readlink(p.file("ns/" + kind))
	if err != nil {
		return false, err
	}
	ours, err := os.Readlink("/proc/self/ns/" + kind)
	return theirs == ours, err
}

// security compares the process with this one.
func (p first) security(s *bench.Security) error {
	theirs, err := statusOf(p.file("status"))
	if err != nil {
		return err
	}
	ours, err := statusOf("/proc/self/status")
	if err != nil {
		return err
	}
	sameUser, err := p.shares("user")
	if err != nil {
		return err
	}
	s.Seccomp = "unconfined"
	if theirs["Seccomp"] != ours["Seccomp"] {
		s.Seccomp = "filtered"
	}
	s.NoNewPrivileges = theirs["NoNewPrivs"] == "1"
	s.UserNS = !sameUser
	s.Privileged = sameUser && theirs["CapBnd"] == ours["CapBnd"]
	return nil
}

// statusOf reads the fields of a /proc/PID/status.
func statusOf(name string) (map[string]string, error) {
	text, err := proc.ReadFile(name, 1<<20)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		fields[string(key)] = string(bytes.TrimSpace(value))
	}
	return fields, nil
}

// limits reads what the kernel holds for the group that the process is in. It
// rounds memory down to whole pages; that is what was asked for.
func (p first) limits(want bench.Limits, l *bench.Limits) error {
	groups, err := p.groups.PathOf(p.pid)
	if err != nil {
		return err
	}
	got, ok := groups["memory"]
	if !ok {
		got = groups[""] // version 2
	}
	if got != p.group {
		return fmt.Errorf("%w: process %d is in cgroup %q instead of %s", bench.ErrMismatch, p.pid, got, p.group)
	}
	held, err := p.groups.Limits(got)
	if err != nil {
		return err
	}
	*l = bench.Limits{CPUs: held.CPUs, CPUSet: held.CPUSet, Memory: held.Memory, Pids: held.Pids}
	page := int64(os.Getpagesize())
	if want.Memory/page == held.Memory/page && (want.Memory == 0) == (held.Memory == 0) {
		l.Memory = want.Memory
	}
	return nil
}
