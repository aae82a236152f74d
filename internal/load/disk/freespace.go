package disk

import (
	"fmt"
	"syscall"

	"github.com/tare-bench/tare/internal/text/unit"
)

// checkSpace checks that a directory has space for the file and a margin, and returns the name
// of its file system.
func checkSpace(dir string, size int64) (system string, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return "", fmt.Errorf("dir=%s: %w", dir, err)
	}
	system = systemName(int64(s.Type))
	if s.Blocks == 0 { // a tmpfs without a limit
		return system, nil
	}
	free, spare := int64(s.Bavail)*int64(s.Bsize), margin(size)
	if free < size+spare {
		return "", fmt.Errorf(
			"not enough space: the test file needs %s, and %s must stay free, but only %s is free: "+
				"use a smaller size, or another directory than %s (%s); cells that take turns have their files at the same time, "+
				"with --interleave off one after the other",
			inBytes(size), inBytes(spare), inBytes(free), dir, system)
	}
	return system, nil
}

func inBytes(n int64) string { return unit.Format(float64(n), unit.Bytes) }

// margin is the space that must stay free besides the file: full disks are slower, and
// others write too.
func margin(size int64) int64 { return max(16<<20, size/20) }

// systemName returns the name of a file system by its magic number (linux/magic.h).
func systemName(magic int64) string {
	names := map[int64]string{
		0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x2fc12fc1: "zfs", 0xf2f52010: "f2fs",
		0x794c7630: "overlay", 0x01021994: tmpfs, 0x858458f6: ramfs, 0x6969: "nfs", 0x65735546: "fuse",
		0x01021997: "9p", 0xff534d42: "cifs", 0x73717368: "squashfs", 0x4d44: "vfat", 0x2011bab0: "exfat",
	}
	if name, ok := names[magic&0xffffffff]; ok {
		return name
	}
	return fmt.Sprintf("file system %#x", magic&0xffffffff)
}

const (
	tmpfs = "tmpfs"
	ramfs = "ramfs"
)

// InMemory reports whether a file system keeps its files in memory.
func InMemory(system string) bool { return system == tmpfs || system == ramfs }
