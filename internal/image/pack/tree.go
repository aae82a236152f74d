package pack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tare-bench/tare/internal/bench"
)

// Limits of one set.
const (
	maxLinks   = 40      // links on the way to one file, as in the kernel
	maxEntries = 20_000  // of a set
	maxBytes   = 4 << 30 // of all files
)

// A tree collects entries below a root.
type tree struct {
	host    Host
	entries map[string]Entry
	bytes   int64
}

func newTree(h Host) *tree {
	if h.Root == "" {
		h.Root = "/"
	}
	if h.MaxBytes == 0 {
		h.MaxBytes = maxBytes
	}
	return &tree{host: h, entries: map[string]Entry{}}
}

// A pathTrace is the directories and links on a path, and finally the file.
type pathTrace []Entry

// file is the last entry of the way.
func (w pathTrace) file() Entry { return w[len(w)-1] }

// find follows a path to a regular file. Like a process with this root, it never leaves the root.
func (t *tree) find(name string) (pathTrace, error) {
	w, err := t.resolve(name)
	if err == nil && !w.regular() {
		err = w.failed(errNotRegular)
	}
	if err != nil {
		return nil, err
	}
	return w.trace, nil
}

// resolve follows a path to a regular file or a directory.
func (t *tree) resolve(name string) (*walker, error) {
	w := &walker{tree: t, name: name, at: "/", rest: strings.Split(name, "/")}
	for len(w.rest) > 0 {
		if err := w.step(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

var (
	errNotRegular  = errors.New("not a regular file")
	errOutsideRoot = errors.New("the kernel makes this file, and it differs in a container")
)

// kernelDirs are the directories with file systems of the kernel.
func kernelDirs() []string { return []string{"/dev", "/proc", "/sys"} }

// A walker follows a path.
type walker struct {
	tree  *tree
	name  string // the path
	at    string // its position, without links
	rest  []string
	links int
	trace pathTrace
}

// regular reports whether it has reached a regular file, and not a directory.
func (w *walker) regular() bool { return len(w.trace) > 0 && w.trace.file().Mode.IsRegular() }

func (w *walker) failed(err error) error { return &fs.PathError{Op: "find", Path: w.name, Err: err} }

func (w *walker) step() error {
	head := w.rest[0]
	w.rest = w.rest[1:]
	switch head {
	case "", ".":
		return nil
	case "..":
		w.at = path.Dir(w.at)
		return nil
	}
	next := path.Join(w.at, head)
	if slices.Contains(kernelDirs(), next) {
		return w.failed(errOutsideRoot)
	}
	file := w.tree.hostPath(next)
	info, err := os.Lstat(file)
	if err != nil {
		return w.failed(errors.Unwrap(err))
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		w.trace, w.at = append(w.trace, directory(next)), next
		return nil
	case fs.ModeSymlink:
		return w.follow(next, file)
	case 0:
		w.trace = append(w.trace, regular(next, file, info))
		if len(w.rest) > 0 {
			return w.failed(syscall.ENOTDIR)
		}
		return nil
	}
	return w.failed(errNotRegular)
}

func (w *walker) follow(next, file string) error {
	e, err := link(next, file)
	if err != nil {
		return w.failed(err)
	}
	if w.links++; w.links > maxLinks {
		return w.failed(syscall.ELOOP)
	}
	if path.IsAbs(e.Target) {
		w.at = "/"
	}
	w.trace = append(w.trace, e)
	w.rest = append(strings.Split(e.Target, "/"), w.rest...)
	return nil
}

// link describes a symbolic link of the host.
func link(name, file string) (Entry, error) {
	target, err := os.Readlink(file)
	return Entry{Path: name, Mode: fs.ModeSymlink | 0o777, Target: target}, err
}

// regular describes a file of the host. Of its mode only the execute permissions remain.
func regular(name, file string, info fs.FileInfo) Entry {
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	return Entry{Path: name, Mode: mode, Size: info.Size(), source: file, info: info}
}

// hostPath is the path on the host of a path of the tree.
func (t *tree) hostPath(name string) string { return filepath.Join(t.host.Root, name) }

// addTrace adds everything on a way; wanted is what needs it.
func (t *tree) addTrace(w pathTrace, wanted string) {
	for _, e := range w {
		if _, ok := t.entries[e.Path]; ok {
			continue
		}
		if e.Mode.IsRegular() {
			e.Wanted = wanted
		}
		t.set(e)
	}
}

// set adds an entry, and replaces an existing one.
func (t *tree) set(e Entry) {
	t.bytes += e.Size - t.entries[e.Path].Size
	t.entries[e.Path] = e
}

// markPart sets the directory under which an entry is reported.
func (t *tree) markPart(name, part string) {
	if e, ok := t.entries[name]; ok && part != "" {
		e.Part = part
		t.entries[name] = e
	}
}

// check returns an error if a limit is exceeded.
func (t *tree) check() error {
	if len(t.entries) > maxEntries || t.bytes > t.host.MaxBytes {
		return fmt.Errorf("%w: the image needs %d files and links with %d bytes altogether, but at most %d with %d "+
			"bytes are allowed",
			bench.ErrUnsupported, len(t.entries), t.bytes, maxEntries, t.host.MaxBytes)
	}
	return nil
}

// inside is the inverse of outside.
func (t *tree) inside(file string) string {
	return path.Join("/", strings.TrimPrefix(file, filepath.Clean(t.host.Root)))
}

// open opens the file of a way for reading, without blocking: if it has become a FIFO, opening
// would wait for a writer.
func (w pathTrace) open() (*os.File, error) {
	return os.OpenFile(w.file().source, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
}

// read reads the file of a way, up to a number of bytes.
func (w pathTrace) read(most int64) ([]byte, error) {
	f, err := w.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	return io.ReadAll(io.LimitReader(f, most))
}

// dynamic reads the file of a way as the dynamic loader does.
func (w pathTrace) dynamic() (*dynamic, error) {
	f, err := w.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	return readELF(f)
}
