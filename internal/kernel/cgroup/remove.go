package cgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// removeTimeout limits how long Kill and Remove wait until processes have ended. A process that outlives
// SIGKILL by more than this hangs in the kernel.
const removeTimeout = 10 * time.Second

// ErrBusy means that processes are left in the group after 10 s or when the context ended. Kill and
// Remove wrap it.
var ErrBusy = errors.New("processes are still in the group")

// Procs lists the processes in the group and in all groups below it, sorted.
// It is empty if the group does not exist.
func (h *Hierarchy) Procs(path string) ([]int, error) {
	dirs, err := h.Dirs(path)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, dir := range dirs {
		below, err := procsBelow(dir)
		if err != nil {
			return nil, err
		}
		pids = append(pids, below...)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

func procsBelow(dir string) ([]int, error) {
	text, err := readFile(filepath.Join(dir, "cgroup.procs"))
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pids := proc.Numbers(text) // without 0, which to kill is the caller's own group
	children, err := subdirs(dir)
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		below, err := procsBelow(child)
		if err != nil {
			return nil, err
		}
		pids = append(pids, below...)
	}
	return pids, nil
}

// Kill sends SIGKILL to every process in the group and below it, frozen ones too, and returns when
// none is left. It refuses a group that contains this process. It is not an error if the group does
// not exist.
func (h *Hierarchy) Kill(ctx context.Context, path string) error {
	if err := checkOwn(path); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	return retry(ctx, func() error {
		pids, err := h.Procs(path)
		if err != nil || len(pids) == 0 {
			return err
		}
		thread := h.refuseSelf(path, pids)
		if thread != nil && !errors.Is(thread, ErrBusy) {
			return thread
		}
		pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() })
		if !h.killAtOnce(path) {
			if err := h.killEach(path, pids); err != nil {
				return err
			}
			h.reapKilled(path)
		}
		return cmp.Or(thread, fmt.Errorf("%w: %s: %d", ErrBusy, path, len(pids)))
	})
}

// refuseSelf returns ErrPath if this process is in the group, of which pids are the processes. It returns
// ErrBusy if only a thread of it is: one that AttachThread moved there leaves when it ends, shortly after it has
// started a process.
func (h *Hierarchy) refuseSelf(path string, pids []int) error {
	self := os.Getpid()
	switch {
	case !slices.Contains(pids, self):
		return nil
	case h.holds(path, self):
		return fmt.Errorf("%w: tare itself is in %s", ErrPath, path)
	default:
		return fmt.Errorf("%w: %s: a thread of tare has yet to end", ErrBusy, path)
	}
}

// killAtOnce prevents processes from forking faster than they are killed. cgroup.kill (version 2,
// since Linux 5.14) kills all processes at once. Without it, a limit of 0 processes prevents new
// ones. If neither works, killing one by one still ends everything that does not fork endlessly. It
// reports whether only waiting is left to do.
func (h *Hierarchy) killAtOnce(path string) bool {
	if p, err := h.controllerDir(path, "pids"); err == nil {
		_ = writeFile(filepath.Join(p.dir, "pids.max"), "0") // see above
	}
	p, err := h.controllerDir(path, "")
	if err != nil {
		return false
	}
	// On a hybrid machine a process can be in the version 1 group alone.
	return writeFile(filepath.Join(p.dir, "cgroup.kill"), "1") == nil && h.Version() == V2
}

// killEach sends SIGKILL to those of the processes that are still in the group: another process can
// have such a number by now.
func (h *Hierarchy) killEach(path string, pids []int) error {
	for _, pid := range pids {
		if err := KillProcess(pid, func() bool { return h.holds(path, pid) }); err != nil {
			return err
		}
	}
	return nil
}

// KillProcess sends SIGKILL to a process if still confirms that it is the intended one. It calls
// still once the pidfd is open, when the number can no longer mean another process. It is not an
// error if the process has ended.
func KillProcess(pid int, still func() bool) error {
	err := killProcess(pid, still)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

func killProcess(pid int, still func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	if err == nil {
		defer func() { _ = unix.Close(fd) }() // nothing was written
	}
	switch {
	case !still():
		return nil
	case err != nil: // before Linux 5.3: the number could be reused between still and kill
		return unix.Kill(pid, unix.SIGKILL)
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// holds reports whether a process is in the group or below it.
func (h *Hierarchy) holds(path string, pid int) bool {
	paths, err := h.PathOf(pid)
	if err != nil {
		return false // gone
	}
	for _, p := range paths {
		if p == path || strings.HasPrefix(p, path+"/") {
			return true
		}
	}
	return false
}

// Remove removes the group and all groups below it from every mounted hierarchy. Their processes
// must have ended; Remove waits at most 10 s until the kernel has released them. It is not an error
// if the group does not exist.
func (h *Hierarchy) Remove(ctx context.Context, path string) error {
	if err := checkOwn(path); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for _, dir := range h.allDirs(path) {
		if err := retry(ctx, func() error { return removeTree(dir) }); err != nil {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return nil
}

// Prune removes the group, and then the groups above it up to the root, from every mounted
// hierarchy, if they are empty. A group that others still use stays, and the last of them prunes
// it.
func (h *Hierarchy) Prune(path string) error {
	if err := checkOwn(path); err != nil {
		return err
	}
	for ; path != "/"; path = filepath.Dir(path) {
		for _, dir := range h.allDirs(path) {
			if err := rmdir(dir); err != nil && !errors.Is(err, ErrBusy) {
				return fmt.Errorf("prune cgroup: %w", err)
			}
		}
	}
	return nil
}

// removeTree removes dir, children first. It looks for children only if there can be some, because
// most groups have none.
func removeTree(dir string) error {
	if err := rmdir(dir); !errors.Is(err, ErrBusy) {
		return err
	}
	children, err := subdirs(dir)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := removeTree(child); err != nil {
			return err
		}
	}
	return rmdir(dir)
}

func rmdir(dir string) error {
	err := unix.Rmdir(dir)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.ENOTEMPTY):
		return fmt.Errorf("%s: %w", dir, ErrBusy)
	case errors.Is(err, unix.EROFS) && !isDir(dir): // the kernel checks this before whether dir exists
		return nil
	default:
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
}

func subdirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if isGone(err) {
		return nil, nil
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs, err
}

// isGone reports whether a group has disappeared: opening its files gives ENOENT, and reading an open
// one gives ENODEV.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// retry calls op until its error is not ErrBusy or ctx ends. Its pauses grow from 0.2 ms, in which
// most processes die, to 10 ms.
func retry(ctx context.Context, op func() error) error {
	pause := 200 * time.Microsecond
	for {
		err := op()
		if !errors.Is(err, ErrBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case <-time.After(pause):
		}
		pause = min(2*pause, 10*time.Millisecond)
	}
}
