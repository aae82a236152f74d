// Package cgroup makes, reads and removes control groups, of version 1, of
// version 2 and of both at once (hybrid), behind one path per group.
//
// A group is named by its path below the mount point (v2) or below every
// controller's mount point (v1), such as "/tare/RUN/1". Where the kernel has
// version 1 hierarchies, one path means one directory in each of them; callers
// need not know. Reading kernel files and parsing them are kept apart: parse.go
// does no I/O.
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

// A Version says which kind of control groups a machine has.
type Version string

// The versions.
const (
	V1     Version = "v1"     // every controller on a hierarchy of version 1
	V2     Version = "v2"     // one hierarchy for all controllers
	Hybrid Version = "hybrid" // controllers on version 1, and a version 2 mount beside them
)

// The errors that callers tell apart.
var (
	// ErrNone is wrapped by Detect's error where nothing is mounted.
	ErrNone = errors.New("no cgroup file system is mounted")
	// ErrController is wrapped where a controller does not exist here.
	ErrController = errors.New("no such cgroup controller here")
	// ErrDelegation is wrapped where this process may not make groups or use a
	// controller: tare is neither root on the host nor in a delegated group.
	ErrDelegation = errors.New("control groups are not delegated to this process")
	// ErrPath is wrapped where a path is not a clean, absolute group path.
	ErrPath = errors.New("not a cgroup path")
)

// controllers are those that limits and statistics need. A group is made in
// the hierarchies of these and no others: each one more costs every container
// that is started one more move between groups.
func controllers() []string {
	return []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "blkio"}
}

// unifiedName is the name on version 2 of a controller of version 1.
// cpuacct is part of the core there and needs no controller.
func unifiedName(controller string) string {
	switch controller {
	case "blkio":
		return "io"
	case "cpuacct":
		return ""
	}
	return controller
}

// A Hierarchy is where the control groups of a machine are mounted. It holds
// no open files, never changes and may be used concurrently.
type Hierarchy struct {
	root      string           // "/", or a captured tree
	v1        map[string]mount // by controller
	unified   *mount           // nil where version 2 is not mounted
	onUnified []string         // the version 2 names of its controllers
	all       []mount          // each hierarchy once, named ones and unused controllers too
}

// A mount is one mounted hierarchy.
type mount struct {
	device string // of the hierarchy, which can be mounted at several places
	point  string // where, below Hierarchy.root
	base   string // the group that is seen there: "/" but in a container
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

// add takes the first mount of each hierarchy, but prefers one that shows all
// of it: engines bind parts of a hierarchy to other places.
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

// Version says which kind of hierarchy this is.
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

// Controllers lists the controllers that exist here, by the names that their
// hierarchy has for them, sorted.
func (h *Hierarchy) Controllers() []string {
	all := slices.Clone(h.onUnified)
	for c := range h.v1 {
		all = append(all, c)
	}
	slices.Sort(all)
	return slices.Compact(all)
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

// Dirs lists the directories that together are the group: one where there is
// version 2 only. They need not exist.
func (h *Hierarchy) Dirs(path string) ([]string, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	return h.mustDirs(path), nil
}

// mustDirs is Dirs of a path that was checked.
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

// every is mustDirs in all mounted hierarchies: OCI runtimes make groups also
// in those of controllers that nothing here uses.
func (h *Hierarchy) every(path string) []string {
	dirs := make([]string, len(h.all))
	for i, m := range h.all {
		dirs[i] = h.join(m, path)
	}
	return dirs
}

// Dir is the directory in which a controller's files of the group lie. The
// controller has its version 1 name ("cpu", "cpuacct", "blkio", …) on either
// version; "" means the version 2 hierarchy itself.
func (h *Hierarchy) Dir(path, controller string) (string, error) {
	if err := check(path); err != nil {
		return "", err
	}
	p, err := h.place(path, controller)
	return p.dir, err
}

// A place is where the files of one controller for one group are, and of which
// version they are.
type place struct {
	dir string
	v2  bool
}

func (h *Hierarchy) place(path, controller string) (place, error) {
	if m, ok := h.v1[controller]; ok && controller != "" {
		return place{dir: h.join(m, path)}, nil
	}
	name := unifiedName(controller)
	if h.unified != nil && (name == "" || slices.Contains(h.onUnified, name)) {
		return place{h.join(*h.unified, path), true}, nil
	}
	return place{}, fmt.Errorf("%q: %w", controller, ErrController)
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
// It is empty where the group does not exist.
func (h *Hierarchy) List(path string) ([]string, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	var groups []string
	for _, dir := range h.every(path) {
		entries, err := os.ReadDir(dir)
		if err != nil && !gone(err) {
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

// PathOf returns the groups that a process is in, by controller; "" is the
// version 2 hierarchy. Paths are as every method here takes them, relative to
// the mount point. 0 means this process.
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

// below turns a group's path in the hierarchy into its path below the mount
// point. They differ where only a part of the hierarchy is mounted.
func (m mount) below(path string) string {
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(m.base, "/")); ok && strings.HasPrefix(rest+"/", "/") {
		return "/" + strings.TrimPrefix(rest, "/")
	}
	return path
}

func (h *Hierarchy) join(m mount, path string, file ...string) string {
	return filepath.Join(append([]string{h.root, m.point, path}, file...)...)
}

// maxPath bounds a group's path, in bytes; maxName is the kernel's bound of
// each name in it.
const (
	maxPath = 1024
	maxName = 255
)

// check reports whether path can be used as a group's path. It becomes part of
// file names that are written to and removed as root, so nothing that could
// lead elsewhere may pass.
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

// checkOwn is check for what changes a group: never the root.
func checkOwn(path string) error {
	if path == "/" {
		return fmt.Errorf("%w: %q is the whole machine", ErrPath, path)
	}
	return check(path)
}
