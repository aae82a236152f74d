// Package cgroup makes, reads and removes control groups, of version 1, of
// version 2 and of both at once (hybrid), behind one path per group.
//
// A group is named by its path below the mount point (v2) or below every controller's mount point
// (v1), such as "/tare/RUN/1". With version 1 hierarchies, one path means one directory in each of
// them; callers need not know. Reading kernel files is separate from parsing them: parse.go does no
// I/O.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A Version is the kind of control groups that a machine has.
type Version string

// The versions.
const (
	V1     Version = "v1"     // every controller on a hierarchy of version 1
	V2     Version = "v2"     // one hierarchy for all controllers
	Hybrid Version = "hybrid" // controllers on version 1, and a version 2 mount beside them
)

// Errors that callers distinguish.
var (
	// ErrNone means that no cgroup file system is mounted. Detect wraps it.
	ErrNone = errors.New("no cgroup file system is mounted")
	// ErrController means that a controller does not exist on this machine.
	ErrController = errors.New("this machine has no such cgroup controller")
	// ErrDelegation means that this process may not make groups or use a controller: tare is
	// neither root on the host nor in a delegated group.
	ErrDelegation = errors.New("control groups are not delegated to this process")
	// ErrPath means that a path is not a clean, absolute group path.
	ErrPath = errors.New("not a valid cgroup path")
)

// controllers are the controllers that limits and statistics need. A group is made only in their
// hierarchies, because each further hierarchy costs every start of a container one more move
// between groups.
func controllers() []string {
	return []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "blkio"}
}

// unifiedName is the version 2 name of a version 1 controller. cpuacct is empty: on version 2 it
// needs no controller.
func unifiedName(controller string) string {
	switch controller {
	case "blkio":
		return "io"
	case "cpuacct":
		return ""
	}
	return controller
}

// A Hierarchy knows where the control groups of a machine are mounted. It holds no open files,
// never changes and may be used concurrently.
type Hierarchy struct {
	root      string           // "/", or a captured tree
	v1        map[string]mount // by controller
	unified   *mount           // nil if version 2 is not mounted
	onUnified []string         // the version 2 names of its controllers
	all       []mount          // each hierarchy once, including named ones and unused controllers
}

// A mount is one mounted hierarchy.
type mount struct {
	device string // of the hierarchy, which can be mounted in several places
	point  string // mount point, below Hierarchy.root
	base   string // the group mounted there: "/" except in a container
	key    string // in parseProcCgroup's result; of several controllers, any
}

// Detect finds the mounted hierarchies of the machine whose file system is at
// root: "/", or a captured tree in tests.
func Detect(root string) (*Hierarchy, error) {
	mounts, err := proc.Mounts(root, 0)
	if err != nil {
		return nil, err
	}
	h := &Hierarchy{root: root, v1: map[string]mount{}}
	for _, e := range entriesOf(mounts) {
		h.add(e)
	}
	if h.unified == nil && len(h.v1) == 0 {
		return nil, fmt.Errorf("%s: %w", filepath.Join(root, "proc/self/mountinfo"), ErrNone)
	}
	if h.unified != nil {
		text, err := readFile(h.join(*h.unified, "/", "cgroup.controllers"))
		if err != nil {
			return nil, err
		}
		h.onUnified = strings.Fields(string(text))
	}
	return h, nil
}

// add keeps one mount of each hierarchy: the first that shows the whole hierarchy, otherwise the
// first. Engines bind parts of a hierarchy to other places.
func (h *Hierarchy) add(e mountEntry) {
	better := func(old mount) bool { return old.base != "/" && e.base == "/" }
	if i := slices.IndexFunc(h.all, func(m mount) bool { return m.device == e.device }); i < 0 {
		h.all = append(h.all, e.mount)
	} else if better(h.all[i]) {
		h.all[i] = e.mount
	}
	if e.v2 {
		if h.unified == nil || better(*h.unified) {
			h.unified = &e.mount
		}
		return
	}
	for _, c := range e.controllers {
		if old, ok := h.v1[c]; !ok || better(old) {
			h.v1[c] = e.mount
		}
	}
}

// Version returns the kind of the hierarchy.
func (h *Hierarchy) Version() Version {
	switch {
	case h.unified == nil:
		return V1
	case len(h.v1) == 0:
		return V2
	default:
		return Hybrid
	}
}

// Writable reports whether this process may make groups below the mount
// points. It changes nothing. Its error wraps ErrDelegation.
func (h *Hierarchy) Writable() error {
	for _, dir := range h.mustDirs("/") {
		if err := unix.Access(dir, unix.W_OK); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDelegation, dir, err)
		}
	}
	return nil
}

// Dirs lists the directories that together are the group; with version 2 alone it is one. They need
// not exist.
func (h *Hierarchy) Dirs(path string) ([]string, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	return h.mustDirs(path), nil
}

// mustDirs is Dirs for a path that was checked.
func (h *Hierarchy) mustDirs(path string) []string {
	var dirs []string
	for _, c := range controllers() {
		// Two controllers can share a mount, as cpu and cpuacct often do.
		if m, ok := h.v1[c]; ok && !slices.Contains(dirs, h.join(m, path)) {
			dirs = append(dirs, h.join(m, path))
		}
	}
	if h.unified != nil {
		dirs = append(dirs, h.join(*h.unified, path))
	}
	return dirs
}

// allDirs is mustDirs for all mounted hierarchies: OCI runtimes also make groups for controllers that
// this package does not use.
func (h *Hierarchy) allDirs(path string) []string {
	dirs := make([]string, len(h.all))
	for i, m := range h.all {
		dirs[i] = h.join(m, path)
	}
	return dirs
}

// Dir is the directory with a controller's files of the group. The controller has its version 1
// name ("cpu", "cpuacct", "blkio", …) on either version; "" means the version 2 hierarchy itself.
func (h *Hierarchy) Dir(path, controller string) (string, error) {
	if err := check(path); err != nil {
		return "", err
	}
	p, err := h.controllerDir(path, controller)
	return p.dir, err
}

// A controllerDir is the directory of one controller's files for one group, and their version.
type controllerDir struct {
	dir string
	v2  bool
}

func (h *Hierarchy) controllerDir(path, controller string) (controllerDir, error) {
	if m, ok := h.v1[controller]; ok && controller != "" {
		return controllerDir{dir: h.join(m, path)}, nil
	}
	name := unifiedName(controller)
	if h.unified != nil && (name == "" || slices.Contains(h.onUnified, name)) {
		return controllerDir{h.join(*h.unified, path), true}, nil
	}
	return controllerDir{}, fmt.Errorf("%q: %w", controller, ErrController)
}

// Open opens the group's directory on version 2, for clone3 with
// CLONE_INTO_CGROUP (syscall.SysProcAttr.CgroupFD). On a hybrid machine that
// leaves the version 1 groups to Attach.
func (h *Hierarchy) Open(path string) (*os.File, error) {
	dir, err := h.Dir(path, "")
	if err != nil {
		return nil, err
	}
	return os.Open(dir)
}

// List lists the groups directly below path in any mounted hierarchy, sorted.
// It is empty if the group does not exist.
func (h *Hierarchy) List(path string) ([]string, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	var groups []string
	for _, dir := range h.allDirs(path) {
		entries, err := os.ReadDir(dir)
		if err != nil && !isGone(err) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() {
				groups = append(groups, filepath.Join(path, e.Name()))
			}
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

// PathOf returns the groups of a process, by controller; "" is the version 2 hierarchy. Paths are
// relative to the mount point, as in every method here. pid 0 means this process.
func (h *Hierarchy) PathOf(pid int) (map[string]string, error) {
	who := "self"
	if pid != 0 {
		who = fmt.Sprint(pid)
	}
	text, err := readFile(filepath.Join(h.root, "proc", who, "cgroup"))
	if err != nil {
		return nil, err
	}
	paths := parseProcCgroup(text)
	for c, path := range paths {
		if m, ok := h.mount(c); ok {
			paths[c] = m.below(path)
		}
	}
	return paths, nil
}

func (h *Hierarchy) mount(controller string) (mount, bool) {
	if controller == "" && h.unified != nil {
		return *h.unified, true
	}
	m, ok := h.v1[controller]
	return m, ok
}

// below turns a group's path in the hierarchy into its path below the mount point. They differ if
// only a part of the hierarchy is mounted.
func (m mount) below(path string) string {
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(m.base, "/")); ok && strings.HasPrefix(rest+"/", "/") {
		return "/" + strings.TrimPrefix(rest, "/")
	}
	return path
}

func (h *Hierarchy) join(m mount, path string, file ...string) string {
	return filepath.Join(append([]string{h.root, m.point, path}, file...)...)
}

// maxPath limits the length of a group's path, in bytes; maxName is the kernel's limit for each
// name in it.
const (
	maxPath = 1024
	maxName = 255
)

// check returns an error unless path is valid as a group's path. The path becomes part of file
// names that root writes and removes, so nothing that leads elsewhere may pass.
func check(path string) error {
	bad := len(path) > maxPath || !strings.HasPrefix(path, "/") || path != filepath.Clean(path) ||
		strings.ContainsFunc(path, func(r rune) bool { return r < ' ' })
	for name := range strings.SplitSeq(path, "/") {
		bad = bad || len(name) > maxName || name == ".."
	}
	if bad {
		return fmt.Errorf("%w: %.80q", ErrPath, path)
	}
	return nil
}

// checkOwn is check for methods that change a group, which must not be the root.
func checkOwn(path string) error {
	if path == "/" {
		return fmt.Errorf("%w: %q is the group of the whole machine", ErrPath, path)
	}
	return check(path)
}
