package floor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/proc"
)

// Inspect implements bench.Container. It asks the kernel about init, which has
// everything that the program will have. A root that is not made of the image
// that was resolved is bench.ErrMismatch.
func (c *container) Inspect(ctx context.Context) (bench.Applied, error) {
	if err := ctx.Err(); err != nil {
		return bench.Applied{}, err
	}
	a, err := c.inspect()
	if err != nil {
		return bench.Applied{}, fmt.Errorf("inspect %s: %w", c.id, err)
	}
	return a, nil
}

func (c *container) inspect() (a bench.Applied, err error) {
	tid, err := thread(c.process.Pid, c.ready.Thread)
	if err != nil {
		return a, err
	}
	dir := dirOf(tid)
	mounts, err := proc.Mounts("/", tid)
	if err != nil {
		return a, err
	}
	root, _ := at(mounts, "/")
	if err := c.checkRoot(dir, root); err != nil {
		return a, err
	}
	a = bench.Applied{Image: c.plan.image, Argv: c.ready.Argv, Network: "none", Storage: root.Type}
	if same(dir, "net") {
		a.Network = "host"
	}
	if a.Mounts, err = c.mounts(dir, mounts); err != nil {
		return a, err
	}
	if a.Security, err = security(dir); err != nil {
		return a, err
	}
	a.Security.ReadOnly = root.ReadOnly()
	if c.groups != nil {
		limits, err := c.groups.Limits(c.group)
		if err != nil {
			return a, err
		}
		a.Limits = bench.Limits{CPUs: limits.CPUs, CPUSet: limits.CPUSet, Memory: limits.Memory, Pids: limits.Pids}
		a.Cgroup = string(c.groups.Version())
	}
	return a, nil
}

// checkRoot wants the root to be made of the image that was resolved.
func (c *container) checkRoot(dir string, root proc.Mount) error {
	lower, _ := root.Option("lowerdir")
	switch {
	case c.copied && sameFile(filepath.Join(dir, "root"), filepath.Join(c.dir, "root")):
	case !c.copied && (lower == c.plan.rootfs || lower == quoteOverlay(c.plan.rootfs)):
	default:
		return fmt.Errorf("%w: image: asked for %s, got a root of type %s over %q", bench.ErrMismatch, c.plan.image, root.Type, lower)
	}
	return nil
}

// dirOf is the directory of a process or a thread.
func dirOf(id int) string { return fmt.Sprintf("/proc/%d", id) }

// thread is the number, on the host, of the thread that will execute the
// program. It is nearly always the main one, whose number inside is 1.
func thread(pid, inside int) (int, error) {
	if inside == 1 {
		return pid, nil
	}
	tasks, err := os.ReadDir(filepath.Join(dirOf(pid), "task"))
	if err != nil {
		return 0, err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		text, err := readAll(filepath.Join(dirOf(tid), "status"))
		if err == nil && slices.Contains(field(text, "NSpid"), strconv.Itoa(inside)) {
			return tid, nil
		}
	}
	return 0, fmt.Errorf("init's thread %d: %w", inside, os.ErrNotExist)
}

// maxProc bounds what is read of a file in /proc.
const maxProc = 4 << 20

func readAll(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxProc))
	return string(text), err
}

// field returns the words of a line of a status file.
func field(status, key string) []string {
	for line := range strings.Lines(status) {
		if k, value, _ := strings.Cut(line, ":"); k == key {
			return strings.Fields(value)
		}
	}
	return nil
}

// same reports whether a process is in tare's own namespace of that kind.
func same(dir, kind string) bool {
	own, err1 := os.Readlink("/proc/self/ns/" + kind)
	its, err2 := os.Readlink(filepath.Join(dir, "ns", kind))
	return err1 == nil && err2 == nil && own == its
}

// at returns the mount that is seen at target: the last one there.
func at(mounts []proc.Mount, target string) (proc.Mount, bool) {
	for _, m := range slices.Backward(mounts) {
		if m.Point == target {
			return m, true
		}
	}
	return proc.Mount{}, false
}

// mounts looks for those that the Spec asked for.
func (c *container) mounts(dir string, all []proc.Mount) ([]bench.Mount, error) {
	var found []bench.Mount
	for _, want := range c.plan.spec.Mounts {
		m, ok := at(all, filepath.Clean(want.Target))
		if !ok {
			continue
		}
		inside := filepath.Join(dir, "root", want.Target)
		got := bench.Mount{Type: "bind", Target: want.Target, ReadOnly: m.ReadOnly()}
		switch {
		case m.Type == "tmpfs" && want.Type == "tmpfs":
			got.Type = "tmpfs"
			size, err := sizeOf(inside)
			if err != nil {
				return nil, err
			}
			if want.Size != 0 {
				got.Size = size
			}
		case sameFile(inside, want.Source):
			got.Source = want.Source
		}
		found = append(found, got)
	}
	return found, nil
}

func sizeOf(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Blocks) * st.Bsize, nil
}

func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return errors.Join(err1, err2) == nil && os.SameFile(x, y)
}

// security reads what protects the host from the program.
func security(dir string) (s bench.Security, err error) {
	status, err := readAll(filepath.Join(dir, "status"))
	if err != nil {
		return s, err
	}
	first := func(key string) string { return strings.Join(field(status, key), " ") }
	bounding, err := strconv.ParseUint(first("CapBnd"), 16, 64)
	if err != nil {
		return s, fmt.Errorf("capabilities: %w", err)
	}
	s.Privileged = bounding&(1<<unix.CAP_SYS_ADMIN) != 0
	s.NoNewPrivileges = first("NoNewPrivs") == "1"
	s.UserNS = !same(dir, "user")
	if s.Seccomp = "filter"; first("Seccomp") == "0" {
		s.Seccomp = "unconfined"
	}
	return s, nil
}
