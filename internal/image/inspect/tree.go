package inspect

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// A tree is a root file system as a container sees it: all links lead somewhere in it.
type tree struct{ root *os.Root }

// maxFollowed is how many links may be on the way to one file, as in Linux.
const maxFollowed = 40

// resolve returns a path without links. os.Root by itself refuses absolute ones.
func (t tree) resolve(name string) string {
	at := "."
	rest := strings.Split(name, "/")
	for links := 0; len(rest) > 0 && links <= maxFollowed; {
		next := cmp.Or(path.Join("/", at, rest[0])[1:], ".") // the root is its own parent
		rest = rest[1:]
		target, err := t.root.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		links++
		if path.IsAbs(target) {
			at = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at
}

// file returns the inode of a regular file, also through links.
func (t tree) file(name string) (uint64, bool) {
	info, err := t.root.Lstat(t.resolve(name))
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return inode(info), true
}

func inode(info fs.FileInfo) uint64 {
	return info.Sys().(*syscall.Stat_t).Ino // as of every file of a disk
}

// read returns the beginning of a file; nothing if it cannot be read.
func (t tree) read(name string, most int64) []byte {
	f, err := t.root.Open(t.resolve(name))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()               // only read from
	text, _ := io.ReadAll(io.LimitReader(f, most)) // what was read counts
	return text
}

// names lists a directory, sorted; nothing if there is none.
func (t tree) names(dir string) (all []string) {
	entries, _ := fs.ReadDir(t.root.FS(), t.resolve(dir))
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// system is the distribution's own name.
func (t tree) system() string {
	const most = 64 << 10
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		for line := range strings.Lines(string(t.read(file, most))) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return fmt.Sprintf("%.100s", strings.Trim(name, `"'`))
			}
		}
	}
	return ""
}
