package cgroup

import (
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

// patience bounds how long Kill and Remove wait for processes to be gone. A
// process that outlives SIGKILL for longer hangs in the kernel.
const patience = 10 * time.Second

// ErrBusy is wrapped by the error of Kill and Remove where processes are left
// after the patience of 10 s or the context's end.
var ErrBusy = errors.New("processes are left in the group")

// Procs lists the processes in the group and in all groups below it, sorted.
// It is empty where the group does not exist.
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
	if gone(err) {
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

// Kill ends every process in the group and below with SIGKILL, frozen ones
// too, and returns when none is left. It refuses a group that this process is in. It is not an
// error if the group does not exist.
func (h *Hierarchy) Kill(ctx context.Context, path string) error {
	if err := checkOwn(path); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return retry(ctx, func() error {
		pids, err := h.Procs(path)
		if err != nil || len(pids) == 0 {
			return err
		}
		if slices.Contains(pids, os.Getpid()) {
			return fmt.Errorf("%w: tare itself is in %s", ErrPath, path)
		}
		if !h.killAtOnce(path) {
			if err := h.killEach(path, pids); err != nil {
				return err
			}
			h.letDie(path)
		}
		return fmt.Errorf("%w: %s: %d", ErrBusy, path, len(pids))
	})
}

// killAtOnce makes killing a race that cannot be lost: cgroup.kill (version 2,
// from Linux 5.14) ends all processes at once, and without it a limit of 0
// processes lets no new one begin. Where neither works, killing one by one
// still ends everything that does not fork for ever. It reports whether there
// is nothing left to do but to wait.
func (h *Hierarchy) killAtOnce(path string) bool {
	if p, err := h.place(path, "pids"); err == nil {
		_ = writeFile(filepath.Join(p.dir, "pids.max"), "0") // see above
	}
	p, err := h.place(path, "")
	if err != nil {
		return false
	}
	// Where there are hierarchies of version 1, a process can be in the group
	// of theirs alone.
	return writeFile(filepath.Join(p.dir, "cgroup.kill"), "1") == nil && h.Version() == V2
}

// killEach sends SIGKILL to those of the processes that are in the group still:
// a number can be another process's by now.
func (h *Hierarchy) killEach(path string, pids []int) error {
	for _, pid := range pids {
		if err := KillProcess(pid, func() bool { return h.holds(path, pid) }); err != nil {
			return err
		}
	}
	return nil
}

// KillProcess sends SIGKILL to a process if still says that it is the one that
// is meant, which is asked when the number cannot be given to another any more.
// It is not an error if the process has ended.
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
	case err != nil: // before Linux 5.3 there is a moment between asking and killing
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

// Remove removes the group and all groups below it from every mounted
// hierarchy. Processes must have ended; it waits for the kernel to let them go,
// for 10 s at most. It is not an error if the group does not exist.
func (h *Hierarchy) Remove(ctx context.Context, path string) error {
	if err := checkOwn(path); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, dir := range h.every(path) {
		if err := retry(ctx, func() error { return removeTree(dir) }); err != nil {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return nil
}

// Prune removes the group, and then those above it up to the root, from every
// mounted hierarchy, as far as nothing is in them. What others still use stays,
// and is for the last of them to prune.
func (h *Hierarchy) Prune(path string) error {
	if err := checkOwn(path); err != nil {
		return err
	}
	for ; path != "/"; path = filepath.Dir(path) {
		for _, dir := range h.every(path) {
			if err := rmdir(dir); err != nil && !errors.Is(err, ErrBusy) {
				return fmt.Errorf("prune cgroup: %w", err)
			}
		}
	}
	return nil
}

// removeTree removes dir, children first. It looks for children only where
// there can be some, because most groups have none.
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
	case errors.Is(err, unix.EROFS) && !isDir(dir): // says so before it looks
		return nil
	default:
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
}

func subdirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if gone(err) {
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

// gone reports whether a group vanished: its files are ENOENT when opened, and
// ENODEV when read through a descriptor from before.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// retry calls op until its error is something else than ErrBusy or ctx ends,
// with pauses that grow from 0.2 ms, since processes die within that, to 10 ms.
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
