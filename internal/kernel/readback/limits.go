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

// Limits returns the kernel's limits for the control group of a process. If the process is not in
// that group, the error wraps bench.ErrMismatch. The kernel rounds memory down to whole pages;
// Memory is want.Memory if it rounds to the same value.
func Limits(h *cgroup.Hierarchy, pid int, group string, want bench.Limits) (bench.Limits, error) {
	got, err := CgroupPath(h, pid)
	if err != nil {
		return bench.Limits{}, err
	}
	if got != group {
		return bench.Limits{}, fmt.Errorf("%w: process %d is in cgroup %q, not in %s", bench.ErrMismatch, pid, got,
			group)
	}
	return readLimits(h, group, want)
}

// LimitsSeen is Limits for drivers whose engine chooses the group; the group's path must contain
// id. It returns word, the engine's statement, if the kernel cannot tell: no control groups are
// mounted, the process has ended, or its group is not visible from here or does not contain id.
func LimitsSeen(pid int, id string, want, word bench.Limits) (bench.Limits, error) {
	h, err := cgroup.Detect("/")
	if errors.Is(err, cgroup.ErrNone) {
		return word, nil
	}
	if err != nil {
		return bench.Limits{}, err
	}
	l := word
	group, err := CgroupPath(h, pid)
	if err == nil && strings.Contains(group, id) {
		l, err = readLimits(h, group, want)
	}
	if isHidden(err) {
		return word, nil
	}
	return l, err
}

// isHidden reports whether an error means that a process or its group does not exist, or is outside
// what is mounted here. Reading an open file in /proc gives ESRCH after its process has ended.
func isHidden(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, cgroup.ErrPath) || errors.Is(err, unix.ESRCH)
}

// CgroupPath returns the path of the control group that limits a process, for the methods of h. On
// version 1 it is the memory controller's group, or that of another limiting controller if the
// kernel has no memory controller.
func CgroupPath(h *cgroup.Hierarchy, pid int) (string, error) {
	if pid <= 0 { // for PathOf it would be this process
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

// InGroupOf reports whether a process is in a control group, of any controller, whose path contains
// id. It is false if the process is not visible.
func InGroupOf(h *cgroup.Hierarchy, pid int, id string) bool {
	if pid <= 0 { // for PathOf it would be this process
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

// readLimits returns the limits of a group, see Limits for want.
func readLimits(h *cgroup.Hierarchy, group string, want bench.Limits) (bench.Limits, error) {
	l, err := h.Limits(group)
	if err != nil {
		return bench.Limits{}, err
	}
	return bench.Limits{CPUs: l.CPUs, CPUSet: l.CPUSet, Memory: wholePages(want.Memory, l.Memory), Pids: l.Pids}, nil
}

// wholePages is want if the kernel rounds it down to got, in whole pages; otherwise got. 0 means no
// limit, not a small one.
func wholePages(want, got int64) int64 {
	page := int64(os.Getpagesize())
	if want/page == got/page && (want == 0) == (got == 0) {
		return want
	}
	return got
}
