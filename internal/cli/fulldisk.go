package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tare-bench/tare/internal/text/unit"
)

// nearlyFull is how many free bytes a file system has at most if it is taken for the full one.
const nearlyFull = 1 << 20

// fullDisk says which file system is full, and how much of it is free, if err is for lack of space;
// otherwise it is empty. The file is the one in the error, or else the store.
func (a *invocation) fullDisk(err error) string {
	if !errors.Is(err, syscall.ENOSPC) {
		return ""
	}
	var at *fs.PathError
	if errors.As(err, &at) && errors.Is(at.Err, syscall.ENOSPC) {
		return spaceAt(at.Path)
	}
	name, nameErr := a.storeName()
	if nameErr != nil {
		return ""
	}
	var s syscall.Statfs_t
	file := strings.TrimPrefix(name, "sqlite:")
	if syscall.Statfs(existingDir(file), &s) != nil || s.Bavail*uint64(s.Bsize) > nearlyFull && s.Ffree > 0 {
		return "" // it is another one
	}
	return spaceAt(file)
}

// spaceAt says how much is free in the file system of a file, which need not exist. It is empty for a
// device.
func spaceAt(file string) string {
	if isDevice(file) {
		return ""
	}
	dir := existingDir(file)
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return ""
	}
	free, all := float64(s.Bavail)*float64(s.Bsize), float64(s.Blocks)*float64(s.Bsize)
	text := fmt.Sprintf("%s of %s are free in the file system at %s", unit.Format(free, unit.Bytes),
		unit.Format(all, unit.Bytes), mountOf(dir))
	if s.Files > 0 && s.Ffree == 0 {
		text += ", and it has no room for another file (inode)"
	}
	return text
}

// existingDir is the nearest directory above a file that exists.
func existingDir(file string) string {
	if real, err := filepath.EvalSymlinks(file); err == nil { // such as /dev/stdout
		file = real
	}
	dir, err := filepath.Abs(file)
	if err != nil {
		return file
	}
	for dir = filepath.Dir(dir); dir != "/"; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return real
		}
	}
	return dir
}

// mountOf is the directory at which the file system of a directory begins.
func mountOf(dir string) string {
	for dir != "/" {
		here, err := os.Stat(dir)
		above, aboveErr := os.Stat(filepath.Dir(dir))
		if cmp.Or(err, aboveErr) != nil || here.Sys().(*syscall.Stat_t).Dev != above.Sys().(*syscall.Stat_t).Dev {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
