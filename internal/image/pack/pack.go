// Package pack finds everything that a program of this host needs to run, and writes it as one
// layer of an image: its dynamic loader, its libraries by the loader's own rules, and files that it
// is known to open later. Paths and symbolic links inside are the same as outside, so that a
// program finds the same files.
//
// It runs nothing to find them. The rules are those of glibc (ld.so(8)) and of musl. It ignores
// LD_LIBRARY_PATH, because programs that tare starts do not get it. The image has no
// /etc/ld.so.preload. If a library has variants for some CPUs (glibc-hwcaps), all are packed, and
// the loader inside chooses.
//
// Recipes list the files that programs open by themselves.
//
// The same files give the same layer, byte for byte. The layer omits the properties that a file has
// only on one host: owner, times, set-user-ID and write permissions.
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

// SearchPath is PATH inside a packed image, without the program's own directory.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// A Set is programs with everything that they need.
type Set struct {
	Program string  // the first one's path, outside and inside: absolute, as found in PATH; it may be a link
	Process Process // the process of a container
	Entries []Entry // sorted by path, directories before their contents
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
	Wanted string // what needs the file, such as a library's path; empty for a named program and for the base
	Part   string // the directory that was packed whole and contains it; empty for a single file
	Data   []byte // of a file that was written for the image

	source string      // of a file from the host: its path
	info   fs.FileInfo // of a file from the host, when it was found
}

// HostFiles are the files that come from the host.
func (s *Set) HostFiles() []Entry {
	return slices.DeleteFunc(slices.Clone(s.Entries), func(e Entry) bool { return e.info == nil })
}

// HasProgram reports whether the host's file of this path can be executed, and is packed under it.
func (s *Set) HasProgram(name string) bool {
	if name == s.Program {
		return true
	}
	return slices.ContainsFunc(s.Entries, func(e Entry) bool {
		return e.Path == name && e.info != nil && e.Mode.IsRegular() && e.Mode&0o111 != 0
	})
}

// Made reports whether the file was written for the image and does not come from the host.
func (e Entry) Made() bool { return e.Mode.IsRegular() && e.info == nil }

// Unchanged returns an error that names the first file that has changed since it was packed.
func (s *Set) Unchanged() error {
	for _, e := range s.HostFiles() {
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
	return fmt.Errorf("%s has changed since it was packed: start a new run", e.Path)
}

// Find returns the file that a program's name means: an absolute path, or a
// name in one of the directories of PATH, /usr/sbin and /sbin. If there is none, the error wraps
// bench.ErrUnsupported and fs.ErrNotExist.
func Find(name string) (string, error) {
	if filepath.IsAbs(name) {
		return filepath.Clean(name), nil
	}
	if name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("program %q: use a name or an absolute path", name)
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

// notFound is the error for a program that does not exist.
type notFound string

func (n notFound) Error() string {
	return fmt.Sprintf("%v: program %q is not in PATH, /usr/sbin or /sbin: install it, or give the path of its file",
		bench.ErrUnsupported, string(n))
}

func (notFound) Unwrap() []error { return []error{bench.ErrUnsupported, fs.ErrNotExist} }

// A Host is a file system from which programs are packed. The zero value is this machine's.
type Host struct {
	Root     string // its root; empty for "/"
	MaxBytes int64  // limit for all files of one image; 0 = 4 GiB
}

// Base are the files that programs and engines expect in every image.
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
