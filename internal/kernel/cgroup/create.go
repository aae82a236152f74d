package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Create makes the group, and the groups above it that are missing, and
// applies the limits. If the group already exists, errors.Is(err, fs.ErrExist). If it fails, it
// does not leave the group itself behind.
//
// On version 2 it enables the controllers in cgroup.subtree_control of the mount's root and of
// every group in path except the last. So paths should begin with a group of the caller's own, such
// as "/tare".
func (h *Hierarchy) Create(path string, l Limits) error {
	if err := checkOwn(path); err != nil {
		return err
	}
	made, err := h.mkdirs(path)
	if err == nil {
		err = h.Set(path, l)
	}
	if err == nil {
		return nil
	}
	for _, dir := range made {
		err = errors.Join(err, rmdir(dir))
	}
	return fmt.Errorf("create cgroup %s: %w", path, markDelegation(err))
}

// CreateEverywhere makes the group in every mounted hierarchy. The groups above it then stay while another
// program, such as an OCI runtime, makes groups below it. It is not an error if the group exists.
// Prune undoes it.
func (h *Hierarchy) CreateEverywhere(path string) error {
	if err := checkOwn(path); err != nil {
		return err
	}
	for _, top := range h.allDirs("/") {
		_, err := h.mkdir(top, path)
		// If tare may not write to a hierarchy, no runtime uses it either.
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(markDelegation(err), ErrDelegation) {
			return fmt.Errorf("hold cgroup %s: %w", path, err)
		}
	}
	return nil
}

// mkdirs makes the group in each hierarchy that is used here. It returns the group's new
// directories, without those of the groups above it.
func (h *Hierarchy) mkdirs(path string) (made []string, err error) {
	for _, top := range h.mustDirs("/") {
		dir, err := h.mkdir(top, path)
		if dir != "" {
			made = append(made, dir)
		}
		if err != nil {
			return made, err
		}
	}
	return made, nil
}

// mkdir makes the group in the hierarchy mounted at top, and returns its directory if it made it.
// It starts again if a group above disappears meanwhile: another run removes empty groups when it
// ends.
func (h *Hierarchy) mkdir(top, path string) (made string, err error) {
	const tries = 100 // a try fails only if another run ends at that very moment
	for range tries {
		made, err = h.tryMkdir(top, path)
		if made != "" || !isGone(err) {
			break
		}
	}
	return made, err
}

func (h *Hierarchy) tryMkdir(top, path string) (made string, err error) {
	above, below := h.preparation(top)
	dir, names := top, strings.Split(path[1:], "/")
	for i, name := range names {
		if err := above(dir); err != nil {
			return "", err
		}
		dir = filepath.Join(dir, name)
		last := i == len(names)-1
		if err := os.Mkdir(dir, 0o755); err != nil && (last || !errors.Is(err, fs.ErrExist)) {
			return "", err
		}
		if last {
			made = dir
		}
		if err := below(dir); err != nil {
			return made, err
		}
	}
	return made, nil
}

// preparation returns what must be done in the hierarchy mounted at top: to a group before another
// is made below it (above), and to the new one afterwards (below). It is also done to existing
// groups, because another tare may have made them just now.
func (h *Hierarchy) preparation(top string) (above, below func(dir string) error) {
	nothing := func(string) error { return nil }
	if h.unified != nil && top == h.join(*h.unified, "/") {
		return enable, nothing
	}
	if cpus, ok := h.v1["cpuset"]; ok && top == h.join(cpus, "/") {
		return nothing, inherit
	}
	return nothing, nothing
}

// inherit gives a version 1 cpuset the CPUs and memory nodes of the group above. A new cpuset has
// none, and no process can join it before it has some.
func inherit(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := readFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(own)) > 0 {
			continue
		}
		above, err := readFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, file), string(bytes.TrimSpace(above))); err != nil {
			return err
		}
	}
	return nil
}

// enable makes the controllers of dir that this package uses available in the groups below it.
func enable(dir string) error {
	available, err := readFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "cgroup.subtree_control")
	text, err := readFile(file)
	if err != nil {
		return err
	}
	enabled := strings.Fields(string(text))
	var missing []string
	for c := range strings.FieldsSeq(string(available)) {
		if usesController(c) && !slices.Contains(enabled, c) {
			missing = append(missing, "+"+c)
		}
	}
	if missing == nil {
		return nil
	}
	if err := writeFile(file, strings.Join(missing, " ")); err != nil {
		return fmt.Errorf("%w: enable %s: %w", ErrDelegation, strings.Join(missing, " "), err)
	}
	return nil
}

// usesController reports whether this package uses a version 2 controller.
func usesController(unified string) bool {
	return slices.ContainsFunc(controllers(), func(c string) bool { return unifiedName(c) == unified })
}

// markDelegation adds ErrDelegation to errors of the kernel that mean missing permission.
func markDelegation(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%w: %w", ErrDelegation, err)
	}
	return err
}

// Attach moves a process with all its threads into the group; 0 means the
// calling process.
func (h *Hierarchy) Attach(path string, pid int) error {
	dirs, err := h.Dirs(path)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := attach(dir, pid); err != nil {
			return markDelegation(err)
		}
	}
	return nil
}

// AttachBeside moves a process with all its threads into the groups that another one is in, in every mounted hierarchy,
// also in those that Attach leaves alone. 0 means the calling process.
func (h *Hierarchy) AttachBeside(pid, other int) error {
	text, err := readFile(filepath.Join(h.root, "proc", strconv.Itoa(other), "cgroup"))
	if err != nil {
		return err
	}
	paths := parseProcCgroup(text)
	for _, m := range h.all {
		path, known := paths[m.key]
		if !known {
			continue // a hierarchy of which this kernel says nothing
		}
		if err := attach(h.join(m, m.below(path)), pid); err != nil {
			return markDelegation(err)
		}
	}
	return nil
}

// AttachThread moves one thread, by its number, into the group's version 1 hierarchies. Processes
// that the thread starts are then in the group too. Version 2 moves only whole processes; use Open
// to start one there.
func (h *Hierarchy) AttachThread(path string, tid int) error {
	dirs, err := h.Dirs(path)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if h.unified != nil && dir == h.join(*h.unified, path) {
			continue
		}
		if err := writeFile(filepath.Join(dir, "tasks"), strconv.Itoa(tid)); err != nil {
			return fmt.Errorf("attach thread %d: %w", tid, markDelegation(err))
		}
	}
	return nil
}

func attach(dir string, pid int) error {
	if err := writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("attach process %d: %w", pid, err)
	}
	return nil
}

// writeFile writes a control file. It never creates one: a missing file means a missing controller.
func writeFile(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if err != nil {
		err = fmt.Errorf("write %q: %w", value, err)
	}
	return errors.Join(err, f.Close())
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
