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
// applies the limits. errors.Is(err, fs.ErrExist) where there is one already.
// If it fails, the group itself is not left behind.
//
// On version 2 it enables the controllers in cgroup.subtree_control of the
// mount's root and of every group in path above the last one, so paths begin
// with a group that is the caller's own, such as "/tare".
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
	return fmt.Errorf("create cgroup %s: %w", path, denied(err))
}

// Hold makes the group in every mounted hierarchy, so that the groups above it
// stay while somebody else, such as an OCI runtime, makes groups below it. It
// is not an error if there is one already. Prune undoes it.
func (h *Hierarchy) Hold(path string) error {
	if err := checkOwn(path); err != nil {
		return err
	}
	for _, top := range h.every("/") {
		_, err := h.mkdir(top, path)
		// A hierarchy that cannot be written to is one that no runtime uses.
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(denied(err), ErrDelegation) {
			return fmt.Errorf("hold cgroup %s: %w", path, err)
		}
	}
	return nil
}

// mkdirs makes the group in each hierarchy that is used here and returns the
// directories made, those of the groups above not among them.
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

// mkdir makes the group in the hierarchy mounted at top, and returns its
// directory if it did. It begins anew where a group above vanishes under it:
// another run that ends removes those that it sees empty.
func (h *Hierarchy) mkdir(top, path string) (made string, err error) {
	const tries = 100 // of which one loses only to a run that ends in that very moment
	for range tries {
		made, err = h.tryMkdir(top, path)
		if made != "" || !gone(err) {
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

// preparation returns what has to be done, in the hierarchy mounted at top, to
// a group before one is made below it, and to that one after. It is done also
// where the groups exist: another tare may have made them this instant.
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

// inherit gives a cpuset of version 1 the CPUs and memory nodes of the group
// above. It begins with none, and no process can join it so.
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

// enable hands the controllers that dir has, and that this package uses, down
// to the groups below it.
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
		if used(c) && !slices.Contains(enabled, c) {
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

// used reports whether this package has a use for a controller of version 2.
func used(unified string) bool {
	return slices.ContainsFunc(controllers(), func(c string) bool { return unifiedName(c) == unified })
}

// denied marks the errors by which the kernel says that groups are not ours.
func denied(err error) error {
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
			return denied(err)
		}
	}
	return nil
}

// AttachThread moves one thread, by its number, into the group's hierarchies of
// version 1, and with it the processes that it starts. Version 2 knows only
// whole processes, which Open starts there.
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
			return fmt.Errorf("attach thread %d: %w", tid, denied(err))
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

// writeFile writes a control file, which is never created by it: a file that
// is missing means that the controller is.
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
