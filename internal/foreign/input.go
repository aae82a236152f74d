package foreign

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

const (
	// MaxFiles is how many files an import reads at most.
	MaxFiles = 200_000
	// MaxLine is the longest line that is read, in bytes.
	MaxLine = 1 << 20
)

// Stdin is the name of the standard input among files.
const Stdin = "-"

// An Input is the files that an import reads.
type Input struct {
	Files []File // as they were given; those of a directory by path
	roots []*os.Root
}

// A File is a file to read.
type File struct {
	Name string // for people: as it was given, or below the directory that was given
	// Dir is the directory that it lies in, in the words of Name; Base is the rest.
	Dir, Base string
	Time      time.Time // when it was last written; zero = unknown
	InDir     bool      // found in a directory that was given, and not given itself
	open      func() (io.ReadCloser, error)
	begins    func(n int) ([]byte, error) // of what can be opened only once; nil = it is opened for that
}

// Open opens the file.
func (f *File) Open() (io.ReadCloser, error) { return f.open() }

// NewFile returns a file with a text, for tests and for what came in another way.
func NewFile(name, text string) File {
	dir, base := path.Split(name)
	return File{
		Name: name, Dir: path.Clean(dir), Base: base,
		open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
	}
}

// Open finds the files that are named, and those in the directories that are named. It follows
// no links out of them, and skips what is not a regular file. Stdin stands for stdin.
func Open(names []string, stdin io.Reader) (*Input, error) {
	in := &Input{}
	for _, name := range names {
		if err := in.add(name, stdin); err != nil {
			return nil, errors.Join(err, in.Close())
		}
	}
	return in, nil
}

// Written is when the first of the files was written; zero = unknown.
func (in *Input) Written() (first time.Time) {
	for _, f := range in.Files {
		if !f.Time.IsZero() && (first.IsZero() || f.Time.Before(first)) {
			first = f.Time
		}
	}
	return first
}

// Close releases the directories.
func (in *Input) Close() error {
	var all []error
	for _, r := range in.roots {
		all = append(all, r.Close())
	}
	in.roots = nil
	return errors.Join(all...)
}

func (in *Input) add(name string, stdin io.Reader) error {
	if name == Stdin {
		in.Files = append(in.Files, newStdin(stdin))
		return nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return in.addDir(name)
	}
	in.Files = append(in.Files, File{
		Name: name, Dir: filepath.Dir(name), Base: filepath.Base(name), Time: info.ModTime(),
		open: func() (io.ReadCloser, error) { return os.Open(name) },
	})
	return nil
}

// newStdin is stdin as a file. It can be looked into, and read once.
func newStdin(stdin io.Reader) File {
	r := bufio.NewReaderSize(stdin, maxBegins)
	return File{
		Name: "stdin", Dir: ".", Base: "stdin",
		open: func() (io.ReadCloser, error) { return io.NopCloser(r), nil },
		begins: func(n int) ([]byte, error) {
			b, err := r.Peek(min(n, maxBegins))
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return b, err
		},
	}
}

func (in *Input) addDir(name string) error {
	root, err := os.OpenRoot(name)
	if err != nil {
		return err
	}
	in.roots = append(in.roots, root)
	return fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", filepath.Join(name, p), err)
		case !e.Type().IsRegular():
			return nil
		case len(in.Files) >= MaxFiles:
			return Errorf(name, 0, "import a part of it at a time", "it holds more than %d files", MaxFiles)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		whole := filepath.Join(name, p)
		in.Files = append(in.Files, File{
			Name: whole, Dir: filepath.Dir(whole), Base: filepath.Base(whole), Time: info.ModTime(), InDir: true,
			open: func() (io.ReadCloser, error) { return root.Open(p) },
		})
		return nil
	})
}

// Lines calls do for each line of a file, numbered from 1, without its end. It stops at the first
// error, and refuses lines longer than MaxLine.
func (f *File) Lines(do func(n int, line []byte) error) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), MaxLine)
	n := 0
	for s.Scan() {
		n++
		if err := do(n, s.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return Errorf(f.Name, n+1, "this is not a file of text", "the line has more than %d bytes", MaxLine)
	}
	if s.Err() != nil {
		return &Error{File: f.Name, Line: n + 1, Err: s.Err()}
	}
	return nil
}

// maxBegins is how much of a file Begins returns at most, in bytes.
const maxBegins = 64 << 10

// Begins returns the first bytes of a file, at most n and maxBegins. They are valid until the file is read.
func (f *File) Begins(n int) ([]byte, error) {
	if f.begins != nil {
		return f.begins(n)
	}
	n = min(n, maxBegins)
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(r, int64(n)))
}

// MaxWhole is how much of a file is read at most where it is read as a whole, in bytes.
const MaxWhole = 64 << 20

// Whole returns all bytes of a file. A file of more than MaxWhole is refused.
func (f *File) Whole() ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(r, MaxWhole+1))
	if err == nil && len(b) > MaxWhole {
		return nil, Errorf(f.Name, 0, "give the file of results alone", "the file has more than %d MiB", MaxWhole>>20)
	}
	return b, err
}
