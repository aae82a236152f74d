package readback

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// Limits returns the limits that the kernel holds for the control group of a
// process, if it is in that group; otherwise the error wraps
// bench.ErrMismatch. Memory is in the words of want if the kernel, which rounds
// down to whole pages, makes the same of it.
func Limits(h *cgroup.Hierarchy, pid int, group string, want bench.Limits) (bench.Limits, error) {
	got, err := Group(h, pid)
	if err != nil {
		return bench.Limits{}, err
	}
	if got != group {
		return bench.Limits{}, fmt.Errorf("%w: process %d is in cgroup %q instead of %s", bench.ErrMismatch, pid, got, group)
	}
	return held(h, group, want)
}

// LimitsSeen is Limits for drivers whose engine puts the process where it
// likes, as long as the group's path has id in it. The engine's word stands
// where the kernel has nothing to say: no control groups are mounted, the
// process has ended, or it is in a group that is not seen from here or not of
// that id.
func LimitsSeen(pid int, id string, want, word bench.Limits) (bench.Limits, error) {
	h, err := cgroup.Detect("/")
	if errors.Is(err, cgroup.ErrNone) {
		return word, nil
	}
	if err != nil {
		return bench.Limits{}, err
	}
	l := word
	group, err := Group(h, pid)
	if err == nil && strings.Contains(group, id) {
		l, err = held(h, group, want)
	}
	if unseen(err) {
		return word, nil
	}
	return l, err
}

// unseen reports whether an error says that a process or its group is not
// there, or is outside of what is mounted here. A file in /proc that was opened
// before its process ended says ESRCH.
func unseen(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, cgroup.ErrPath) || errors.Is(err, unix.ESRCH)
}

// Group returns the path of the control group that limits a process, as the
// methods of h take it. On version 1 that is where the memory controller has
// it, or another one that limits where a kernel does without that.
func Group(h *cgroup.Hierarchy, pid int) (string, error) {
	if pid <= 0 { // which is this process for PathOf
		return "", &fs.PathError{Op: "open", Path: file(pid, "cgroup"), Err: fs.ErrNotExist}
	}
	groups, err := h.PathOf(pid)
	if err != nil {
		return "", err
	}
	return limiting(groups), nil
}

func limiting(groups map[string]string) string {
	for _, controller := range []string{"memory", "pids", "cpu", "cpuset"} {
		if group, ok := groups[controller]; ok {
			return group
		}
	}
	return groups[""] // version 2
}

// InGroupOf reports whether a process is in a control group, of any controller,
// whose path has id in it. It is false where the process is not seen.
func InGroupOf(h *cgroup.Hierarchy, pid int, id string) bool {
	if pid <= 0 { // which is this process for PathOf
		return false
	}
	groups, err := h.PathOf(pid)
	if err != nil {
		return false
	}
	for _, path := range groups {
		if strings.Contains(path, id) {
			return true
		}
	}
	return false
}

// held returns the limits of a group, in the words of want.
func held(h *cgroup.Hierarchy, group string, want bench.Limits) (bench.Limits, error) {
	l, err := h.Limits(group)
	if err != nil {
		return bench.Limits{}, err
	}
	return bench.Limits{CPUs: l.CPUs, CPUSet: l.CPUSet, Memory: wholePages(want.Memory, l.Memory), Pids: l.Pids}, nil
}

// wholePages is want if the kernel, which rounds memory down to whole pages,
// makes got of it. Otherwise it is got; 0 is no limit, not a small one.
func wholePages(want, got int64) int64 {
	page := int64(os.Getpagesize())
	if want/page == got/page && (want == 0) == (got == 0) {
		return want
	}
	return got
}
