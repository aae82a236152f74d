package readback

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// FileSystems returns the root of a process, so that the driver can check that it is the image's,
// and the mounts at the requested places, in the same order. If a mount is as requested, it is
// returned as requested: a bind mount shows the source itself, and a tmpfs has its size in whole
// pages. A mount that differs, such as by being read-only, is returned as it is. Places without a
// mount are omitted.
func FileSystems(pid int, asked []bench.Mount) (root proc.Mount, found []bench.Mount, err error) {
	if pid <= 0 { // for proc.Mounts it would be this process
		return root, nil, &fs.PathError{Op: "open", Path: file(pid, "mountinfo"), Err: fs.ErrNotExist}
	}
	mounts, err := proc.Mounts("/", pid)
	if err != nil {
		return root, nil, err
	}
	visible := make(map[string]proc.Mount, len(mounts))
	for _, m := range mounts { // a later one hides an earlier one
		visible[m.Point] = m
	}
	for _, want := range asked {
		if got, ok := visible[filepath.Clean(want.Target)]; ok {
			found = append(found, describeMount(want, got, filepath.Join(file(pid, "root"), want.Target)))
		}
	}
	return visible["/"], found, nil
}

// describeMount returns want if the kernel says that the mount is the same, and otherwise describes the
// mount as it is. inside is its path from here.
func describeMount(want bench.Mount, got proc.Mount, inside string) bench.Mount {
	m := bench.Mount{Type: got.Type, Target: want.Target, ReadOnly: got.ReadOnly()}
	if want.Type == "bind" {
		if SameFile(inside, want.Source) {
			m.Type, m.Source = "bind", want.Source
		}
		return m
	}
	if size, ok := got.Option("size"); ok {
		m.Size = kibibytes(size)
	}
	if m.Size >= 0 && pagesFor(m.Size) == pagesFor(want.Size) {
		m.Size = want.Size
	}
	return m
}

// SameFile reports whether two paths lead to the same file or directory.
func SameFile(a, b string) bool {
	fa, errA := os.Stat(a)
	fb, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(fa, fb)
}

// kibibytes reads a size such as "980k", in bytes; -1 if it cannot.
func kibibytes(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, "k"), 10, 64)
	if err != nil {
		return -1
	}
	return n << 10
}

// pagesFor is the number of pages that a tmpfs needs for n bytes.
func pagesFor(n int64) int64 {
	size := int64(os.Getpagesize())
	return (n + size - 1) / size
}
