// Package pack finds everything that a program of this host needs to run: its
// dynamic loader, its libraries and what is known to be opened later, by the
// dynamic loader's own rules, and writes it as one layer of an image. Paths and
// symbolic links inside are those outside, so that a program finds inside what
// it finds outside.
//
// Nothing is run to find it out. The rules are those of glibc (ld.so(8)) and of
// musl. LD_LIBRARY_PATH is ignored: what tare starts does not get it. Nor does
// the image have /etc/ld.so.preload. Of a library with variants for some CPUs
// (glibc-hwcaps) all are taken, and the loader inside chooses.
//
// What programs open by themselves, Recipes say.
//
// The same files give the same layer, to the byte: what belongs to a file on
// one host only (owner, times, set-user-ID, who may write to it) is left out.
package pack

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// SearchPath is PATH inside a packed image, but for the program's own directory.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// A Set is programs with everything that they need.
type Set struct {
	Program string  // the first one, outside and inside: absolute, as it was found in PATH; it may be a link
	Process Process // what a container of it runs
	Entries []Entry // sorted by path, directories before what is in them
	SetID   bool    // outside, a program is set-user-ID or set-group-ID; inside it is not
}

// An Entry is a directory, a symbolic link or a regular file of an image.
type Entry struct {
	Path   string      // absolute, without links on the way
	Mode   fs.FileMode // its kind, and its permissions inside
	UID    int         // its owner inside
	GID    int
	Target string // of a link, as it is written in it
	Size   int64  // of a file
	Wanted string // by what a file is needed, such as the path of a library; empty for a program that was asked for, and for what is in every image
	Part   string // the directory that it was taken with, where it is one of many; empty for a file of its own
	Data   []byte // of a file that was made and not taken from the host

	source string      // of a file that was taken: where to read it
	info   fs.FileInfo // of a file that was taken, when it was
}

// Taken are the files that come from the host.
func (s *Set) Taken() []Entry {
	return slices.DeleteFunc(slices.Clone(s.Entries), func(e Entry) bool { return e.info == nil })
}

// Made reports whether it is a file that was written for the image, and does not come
// from the host.
func (e Entry) Made() bool { return e.Mode.IsRegular() && e.info == nil }

// Unchanged reports which of the files is no longer what was taken.
func (s *Set) Unchanged() error {
	for _, e := range s.Taken() {
		now, err := os.Stat(e.source)
		if err != nil {
			return err
		}
		if err := e.unchanged(now); err != nil {
			return err
		}
	}
	return nil
}

func (e Entry) unchanged(now fs.FileInfo) error {
	if os.SameFile(e.info, now) && now.Size() == e.Size && now.ModTime().Equal(e.info.ModTime()) {
		return nil
	}
	return fmt.Errorf("%s has changed since it was packed: begin a new run", e.Path)
}

// Find returns the file that a program's name means: an absolute path, or a
// name in one of the directories of PATH, /usr/sbin and /sbin. The error wraps
// bench.ErrUnsupported and fs.ErrNotExist where there is none.
func Find(name string) (string, error) {
	if filepath.IsAbs(name) {
		return filepath.Clean(name), nil
	}
	if name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("program %q: want a name, or an absolute path", name)
	}
	if file, err := exec.LookPath(name); err == nil && filepath.IsAbs(file) {
		return filepath.Clean(file), nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if file, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return file, nil
		}
	}
	return "", notFound(name)
}

// notFound is the error for a program of a name that there is not.
type notFound string

func (n notFound) Error() string {
	return fmt.Sprintf("%v: no program %q in PATH, /usr/sbin or /sbin: install it, or name its file", bench.ErrUnsupported, string(n))
}

func (notFound) Unwrap() []error { return []error{bench.ErrUnsupported, fs.ErrNotExist} }

// A Host is a file system to take programs from. The zero value is this machine's.
type Host struct {
	Root     string // where it begins; empty for "/"
	MaxBytes int64  // that the files of one image may have in all; 0 = 4 GiB
}

// Base is what programs and engines expect in every image.
func Base() []Entry {
	return []Entry{
		directory("/dev"),
		directory("/etc"),
		text("/etc/group", baseGroups),
		text("/etc/passwd", baseUsers),
		directory("/proc"),
		directory("/sys"),
		{Path: bench.DataDir, Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Path: "/tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
}

func directory(name string) Entry { return Entry{Path: name, Mode: fs.ModeDir | 0o755} }

func text(name, data string) Entry {
	return Entry{Path: name, Mode: 0o644, Data: []byte(data), Size: int64(len(data))}
}
