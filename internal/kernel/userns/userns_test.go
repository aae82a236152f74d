package userns_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/userns"
)

// open opens a namespace, where the kernel lets this user.
func open(t *testing.T) *os.File {
	t.Helper()
	ns, err := userns.Open()
	if os.Geteuid() != 0 && errors.Is(err, bench.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() }) // opened for what it is
	return ns
}

func TestOpen(t *testing.T) {
	ns := open(t)
	var theirs, ours syscall.Stat_t
	if err := errors.Join(syscall.Fstat(int(ns.Fd()), &theirs), syscall.Stat("/proc/self/ns/user", &ours)); err != nil {
		t.Fatal(err)
	}
	if theirs.Ino == ours.Ino {
		t.Error("the namespace is this process's own")
	}
	if children, err := os.ReadFile("/proc/self/task/" + filepath.Base(mustRead(t, "/proc/thread-self")) +
		"/children"); err == nil && strings.TrimSpace(string(children)) != "" {
		t.Errorf("the process that made it is left: %s", children)
	}
}

func mustRead(t *testing.T, link string) string {
	t.Helper()
	target, err := os.Readlink(link)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// Files of root's are those of the first user of the namespace.
func TestBind(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	ns, source, target := open(t), t.TempDir(), t.TempDir()
	for i, name := range []string{"root", "other"} {
		file := filepath.Join(source, name)
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chown(file, 7*i, 8*i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := userns.Bind(source, target, ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, 0); err != nil {
			t.Error(err)
		}
	})
	for name, want := range map[string][2]uint32{
		"root": {userns.First, userns.First}, "other": {userns.First + 7, userns.First + 8},
	} {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(target, name), &st); err != nil || [2]uint32{st.Uid, st.Gid} != want {
			t.Errorf("%s belongs to %d:%d, %v; want %v", name, st.Uid, st.Gid, err, want)
		}
	}
}

func TestBindRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	ns, target := open(t), t.TempDir()
	if err := userns.Bind("/proc", target, ns); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("Bind of a file system that cannot: %v, want bench.ErrUnsupported", err)
	}
	if err := userns.Bind(filepath.Join(target, "missing"), target, ns); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Bind of nothing: %v", err)
	}
	if entries, err := os.ReadDir(target); err != nil || len(entries) > 0 {
		t.Errorf("a mount that was refused is there: %v, %v", entries, err)
	}
}

func TestPassable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "closed", "below")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := userns.Traversable("/usr"); err != nil {
		t.Errorf("/usr: %v", err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := userns.Traversable(dir); !errors.Is(err, bench.ErrUnsupported) ||
		!strings.Contains(err.Error(), filepath.Dir(dir)+":") {
		t.Errorf("below a directory of root's: %v, want bench.ErrUnsupported, and which it is", err)
	}
	if err := userns.Traversable(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is missing: %v", err)
	}
}
