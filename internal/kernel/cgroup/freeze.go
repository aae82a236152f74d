package cgroup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Freeze stops every process in the group and below it, and returns when all are frozen. If it
// fails, some may be frozen; Thaw thaws them.
//
// On version 1 the first Freeze makes a freezer for the group and moves its processes there. Create
// does not make one, because it would slow down the start of every container.
func (h *Hierarchy) Freeze(ctx context.Context, path string) error {
	f, err := h.freezer(path)
	if err == nil && !f.v2 {
		err = h.moveToFreezer(ctx, path)
	}
	if err == nil {
		err = f.set(true)
	}
	if err == nil {
		err = f.await(ctx, true)
	}
	if err != nil {
		return fmt.Errorf("freeze %s: %w", path, markDelegation(err))
	}
	return nil
}

// Thaw thaws every process in the group, and returns when all run again. It is not an error if none
// is frozen, or if the group does not exist.
func (h *Hierarchy) Thaw(ctx context.Context, path string) error {
	f, err := h.freezer(path)
	if err == nil {
		err = f.set(false)
	}
	if err == nil {
		err = f.await(ctx, false)
	}
	if err != nil && !isGone(err) {
		return fmt.Errorf("thaw %s: %w", path, markDelegation(err))
	}
	return nil
}

// freezer returns the place of the group's freezer: on version 1 if that freezer is mounted,
// because version 2 may then only be mounted for names.
func (h *Hierarchy) freezer(path string) (freezer, error) {
	if err := checkOwn(path); err != nil {
		return freezer{}, err
	}
	p, err := h.controllerDir(path, "freezer")
	if errors.Is(err, ErrController) {
		p, err = h.controllerDir(path, "") // on version 2 it needs no controller
	}
	return freezer(p), err
}

// moveToFreezer moves the group's processes to its version 1 freezer. Processes there start others only
// there, so it ends when all have been moved.
func (h *Hierarchy) moveToFreezer(ctx context.Context, path string) error {
	top, err := h.controllerDir("/", "freezer")
	if err != nil {
		return err
	}
	if _, err := h.mkdir(top.dir, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir := filepath.Join(top.dir, path)
	for {
		outside := []int(nil)
		err := retry(ctx, func() (err error) {
			outside, err = h.strayProcesses(path, dir)
			return cmp.Or(err, h.refuseSelf(path, outside))
		})
		if err != nil || len(outside) == 0 {
			return err
		}
		for _, pid := range outside {
			if err := attach(dir, pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// strayProcesses lists the group's processes that are not in its directory dir.
func (h *Hierarchy) strayProcesses(path, dir string) ([]int, error) {
	pids, err := h.Procs(path)
	if err != nil {
		return nil, err
	}
	inside, err := procsBelow(dir)
	// 0 stands for a process that is not visible from here. Moving 0 would move tare.
	return slices.DeleteFunc(pids, func(pid int) bool { return pid <= 0 || slices.Contains(inside, pid) }), err
}

// A freezer is the place of a freezer's files.
type freezer controllerDir

func (f freezer) set(frozen bool) error {
	file, value := "freezer.state", "THAWED"
	switch {
	case f.v2 && frozen:
		file, value = "cgroup.freeze", "1"
	case f.v2:
		file, value = "cgroup.freeze", "0"
	case frozen:
		value = "FROZEN"
	}
	return writeFile(filepath.Join(f.dir, file), value)
}

// await returns when the kernel has reached the state that set requested. That takes microseconds,
// so the first checks follow without a pause.
func (f freezer) await(ctx context.Context, frozen bool) error {
	looks := 0
	return retry(ctx, func() error {
		for ; looks < 200; looks++ {
			if is, err := f.frozen(); err != nil || is == frozen {
				return err
			}
		}
		is, err := f.frozen()
		if err == nil && is != frozen {
			err = fmt.Errorf("%s: %w", f.dir, ErrBusy)
		}
		return err
	})
}

// frozen reports whether all processes are frozen. On version 1 the state changes from FREEZING to
// FROZEN only when it is read.
func (f freezer) frozen() (bool, error) {
	if f.v2 {
		text, err := readFile(filepath.Join(f.dir, "cgroup.events"))
		return bytes.Contains(text, []byte("frozen 1")), err
	}
	text, err := readFile(filepath.Join(f.dir, "freezer.state"))
	return strings.TrimSpace(string(text)) == "FROZEN", err
}

// reapKilled thaws processes so that they notice SIGKILL. On version 1 a frozen process does not notice
// it, whether its own group is frozen, one below, or the run's group, which somebody may have
// frozen by hand. Groups above tare's own stay as they are. A failure here shows up later, when
// tare waits for the processes.
func (h *Hierarchy) reapKilled(path string) {
	above := filepath.Dir(path)
	if f, err := h.freezer(above); err == nil && !f.v2 && strings.Contains(above, "/tare") {
		_ = f.set(false) // see above
	}
	if f, err := h.freezer(path); err == nil && !f.v2 {
		f.thawBelow()
	}
}

// thawBelow thaws a version 1 group and all groups below it, as far as it can.
func (f freezer) thawBelow() {
	_ = f.set(false)
	below, _ := subdirs(f.dir)
	for _, dir := range below {
		freezer{dir: dir}.thawBelow()
	}
}
