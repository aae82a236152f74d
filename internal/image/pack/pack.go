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
// The same files give the same layer, to the byte: what belongs to a file on
// one host only (owner, times, set-user-ID, who may write to it) is left out.
package pack

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// SearchPath is PATH inside a packed image, but for the program's own directory.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// A Set is a program with everything that it needs.
type Set struct {
	Program string  // where it is, outside and inside: absolute, as it was found in PATH; it may be a link
	Entries []Entry // sorted by path, directories before what is in them
	SetID   bool    // outside, the program is set-user-ID or set-group-ID; inside it is not
}

// An Entry is a directory, a symbolic link or a regular file of an image.
type Entry struct {
	Path   string      // absolute, without links on the way
	Mode   fs.FileMode // its kind, and its permissions inside
	Target string      // of a link, as it is written in it
	Size   int64       // of a file
	Wanted string      // by what a file that was taken is needed, such as the path of a library; empty for the program
	Data   []byte      // of a file that was made and not taken from the host

	source string      // of a file that was taken: where to read it
	info   fs.FileInfo // of a file that was taken, when it was
}

// Taken are the files that come from the host.
func (s *Set) Taken() []Entry {
	return slices.DeleteFunc(slices.Clone(s.Entries), func(e Entry) bool { return e.info == nil })
}

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
	return "", fmt.Errorf("%w: no program %q in PATH, /usr/sbin or /sbin: install it, or name its file: %w", bench.ErrUnsupported, name, fs.ErrNotExist)
}

// A Host is a file system to take programs from. The zero value is this machine's.
type Host struct {
	Root     string // where it begins; empty for "/"
	MaxBytes int64  // that the files of one program may have in all; 0 = 4 GiB
}

// Program returns the program at an absolute path with everything that it needs.
// Errors wrap bench.ErrUnsupported where it cannot be packed: it is missing, a
// script or for another architecture, or lacks a library itself.
func (h Host) Program(program string) (*Set, error) {
	t := newTree(h)
	c := newClosure(t)
	if err := c.program(program); err != nil {
		return nil, err
	}
	c.hints()
	base := append(Base(), text("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"))
	if c.glibc != nil {
		base = append(base, c.glibc.files()...)
	}
	for _, e := range base {
		t.entries[e.Path] = e
	}
	s := &Set{Program: program, SetID: c.setID}
	for _, name := range slices.Sorted(maps.Keys(t.entries)) {
		s.Entries = append(s.Entries, t.entries[name])
	}
	return s, t.check()
}

// Base is what programs and engines expect in every image.
func Base() []Entry {
	return []Entry{
		directory("/dev"),
		directory("/etc"),
		text("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
		text("/etc/passwd", "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"),
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

// PathFor is PATH inside the image of a program: the program is in it.
func PathFor(program string) string {
	dir := path.Dir(program)
	if slices.Contains(strings.Split(SearchPath, ":"), dir) || strings.Contains(dir, ":") {
		return SearchPath
	}
	return dir + ":" + SearchPath
}
