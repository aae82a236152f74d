// Package userns makes the user namespace of containers for engines that leave it to tare: its
// users, and files that belong to its root.
package userns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// The host's users and groups that are 0 to Size-1 inside. Nobody else uses them: they are above
// the range that systemd assigns to containers, where no range is assigned.
const (
	First = 0x7000_0000
	Size  = 1 << 16
)

// Open returns a user namespace of these users. It contains no process.
func Open() (ns *os.File, err error) {
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: First, Size: Size}}
	// A traced process makes it. The process stops before its first instruction, so its program
	// does not matter.
	p, err := os.StartProcess("/proc/self/exe", []string{"userns"},
		&os.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping, Ptrace: true,
			Pdeathsig: syscall.SIGKILL,
		}})
	if err != nil {
		return nil, fmt.Errorf("%w: make a user namespace: %w", bench.ErrUnsupported, err)
	}
	defer func() {
		_, waitErr := p.Wait()
		err = errors.Join(err, waitErr)
	}()
	ns, err = os.Open(filepath.Join("/proc", strconv.Itoa(p.Pid), "ns/user"))
	return ns, errors.Join(err, p.Kill())
}

// Bind mounts the directory source at target. There its files belong to the namespace's users and
// not to the host's users with the same numbers. The error wraps bench.ErrUnsupported if the kernel
// or the file system cannot do that.
func Bind(source, target string, ns *os.File) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return failed("open_tree", source, err)
	}
	defer func() { _ = unix.Close(tree) }() // the mount stays after it is moved
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return failed("mount_setattr", source, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return failed("move_mount", target, err)
	}
	return nil
}

func failed(op, path string, err error) error {
	err = &os.PathError{Op: op, Path: path, Err: err}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: user namespaces: mapping the owners of files needs Linux 5.19 or newer and a file "+
			"system that supports it, such as ext4 or xfs: %w", bench.ErrUnsupported, err)
	}
	return err
}

// AllowTraverse lets only the root of the namespace, besides the owner, pass through a directory: it gives
// the directory a group that no user of the host has.
func AllowTraverse(dir string) error {
	return errors.Join(os.Chown(dir, -1, First), os.Chmod(dir, 0o710))
}

// Traversable checks that everybody may pass through a directory and those above it, because a process
// that sets up a container in a user namespace has no rights of its own there. The error wraps
// bench.ErrUnsupported.
func Traversable(dir string) error {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("%w: user namespaces: other users may not pass through %s: choose another directory "+
				"with --state, such as /var/lib/tare, or allow it with chmod o+x", bench.ErrUnsupported, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
