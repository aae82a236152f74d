package idle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Limits of counting an engine's files.
const (
	maxFiles = 1_000_000
	maxTime  = 15 * time.Second
)

// recordDisk reports what is in use of the disks.
func recordDisk(ctx context.Context, e bench.Engine, to bench.Recorder) error {
	system, device, err := usedBy(root)
	if err != nil {
		return err
	}
	reporter, ok := bench.As[bench.DiskReporter](e)
	if !ok {
		return nil
	}
	disk, err := reporter.Disk(ctx)
	switch {
	case errors.Is(err, bench.ErrUnsupported):
		return nil
	case err != nil:
		return err
	}
	if disk.Images >= 0 {
		to.Record(ImagesDisk, float64(disk.Images))
	}
	limited, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	c := newFileCount(limited, maxFiles)
	c.system = device
	for _, dir := range disk.Dirs {
		if err := c.add(dir); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			to.Note(NoteFilesUnknown)
			return nil
		}
	}
	var engine int64
	for on, bytes := range c.bytes {
		engine += bytes
		if on == device {
			system -= bytes
		}
	}
	to.Record(EngineDisk, float64(engine))
	to.Record(SystemDisk, float64(max(system, 0)))
	return nil
}

// usedBy returns how many bytes of a directory's file system are in use, and its device.
func usedBy(dir string) (bytes int64, device uint64, err error) {
	var all syscall.Statfs_t
	if err := syscall.Statfs(dir, &all); err != nil {
		return 0, 0, fmt.Errorf("file system of %s: %w", dir, err)
	}
	var one syscall.Stat_t
	if err := syscall.Lstat(dir, &one); err != nil {
		return 0, 0, fmt.Errorf("file system of %s: %w", dir, err)
	}
	return int64(all.Blocks-all.Bfree) * all.Frsize, one.Dev, nil
}

// A fileCount adds up the allocated blocks of files, each file once.
type fileCount struct {
	ctx    context.Context
	left   int              // files that may still be counted
	system uint64           // device of the system's file system; 0 = unknown
	bytes  map[uint64]int64 // by device
	seen   map[inode]bool   // files with several names
}

type inode struct{ device, number uint64 }

func newFileCount(ctx context.Context, most int) *fileCount {
	return &fileCount{ctx: ctx, left: most, bytes: map[uint64]int64{}, seen: map[inode]bool{}}
}

var (
	errTooMany = errors.New("there are too many files to count")
	errShared  = errors.New("files share their blocks with those of other subvolumes or data sets")
)

// add counts a directory and everything in it on the same file system. What is mounted below is not
// the engine's, or shows the same files once more. A directory that does not exist is empty. Subvolumes of btrfs and
// data sets of ZFS are an error: their files have blocks in common.
func (c *fileCount) add(dir string) error {
	var top syscall.Stat_t
	if err := syscall.Stat(dir, &top); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	var on syscall.Statfs_t
	if err := syscall.Statfs(dir, &on); err != nil {
		return fmt.Errorf("file system of %s: %w", dir, err)
	}
	// On btrfs, a part of the system's file system may have a device of its own.
	if on.Type == zfs || on.Type == btrfs && c.system != 0 && top.Dev != c.system {
		return errShared
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved // the directory may be a link to another disk
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		if c.left--; c.left < 0 {
			return errTooMany
		}
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		return c.count(path, e, top.Dev)
	})
}

func (c *fileCount) count(path string, e fs.DirEntry, device uint64) error {
	var f syscall.Stat_t
	if err := syscall.Lstat(path, &f); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("lstat %s: %w", path, err)
	}
	switch {
	case f.Dev == device:
	case !e.IsDir():
		return nil
	case proc.SameMount(path, filepath.Dir(path)):
		return errShared
	default:
		return fs.SkipDir
	}
	if f.Nlink > 1 && !e.IsDir() {
		name := inode{f.Dev, f.Ino}
		if c.seen[name] {
			return nil
		}
		c.seen[name] = true
	}
	const block = 512 // of st_blocks, whatever the file system's own is
	c.bytes[f.Dev] += f.Blocks * block
	return nil
}

// How statfs names file systems.
const (
	zfs   = 0x2fc12fc1
	btrfs = 0x9123683e
)
