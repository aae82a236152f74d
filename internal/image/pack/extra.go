package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tare-bench/tare/internal/bench"
)

// wantedByUser is by what a file is needed that was asked for by its own name.
const wantedByUser = "--file"

// objects adds the libraries of those files that are objects at their own place:
// modules of the first program.
func (p *packer) objects() error {
	c := p.closures[0]
	for _, f := range p.request.Files {
		if f.Dest != "" && f.Dest != f.Source || c.rules == nil {
			continue
		}
		w, err := p.tree.find(f.Source)
		if err != nil {
			continue // a directory; what else there is, files will say
		}
		if _, err := w.dynamic(); errors.Is(err, errNotELF) {
			continue
		}
		o, err := c.library(c.main, f.Source)
		if err != nil {
			return fmt.Errorf("file %s: %w", f.Source, err)
		}
		if err := c.load(o); err != nil {
			return err
		}
	}
	return nil
}

// files adds the files and directories that were asked for. They replace what
// is there.
func (p *packer) files() error {
	for _, f := range p.request.Files {
		if f.Dest == "" {
			f.Dest = f.Source
		}
		if err := p.file(f); err != nil {
			return fmt.Errorf("%w: file %s: %w", bench.ErrUnsupported, f.Source, err)
		}
	}
	return nil
}

func (p *packer) file(f File) error {
	if err := checkDest(f.Dest); err != nil {
		return err
	}
	w, err := p.tree.look(f.Source)
	if err != nil {
		return err
	}
	if w.regular() {
		e := w.way.file()
		e.Path, e.Wanted = f.Dest, wantedByUser
		return p.tree.put(e)
	}
	return p.tree.walk(w.at, func(name string, e Entry) error {
		e.Path, e.Wanted = path.Join(f.Dest, strings.TrimPrefix(name, w.at)), wantedByUser
		if e.Mode.IsDir() {
			_, err := p.tree.mkdir(e.Path)
			return err
		}
		e.Part = f.Dest
		return errors.Join(p.tree.put(e), p.tree.check())
	})
}

// checkDest refuses a place that is none in an image.
func checkDest(dest string) error {
	switch {
	case !path.IsAbs(dest) || path.Clean(dest) != dest || dest == "/":
		return fmt.Errorf("place %q: want an absolute path without . and .. that is not /", dest)
	case slices.ContainsFunc(kernels(), func(d string) bool { return dest == d || strings.HasPrefix(dest, d+"/") }):
		return fmt.Errorf("place %q: %w", dest, errElsewhere)
	}
	return nil
}

// walk calls do for everything in a directory of the host, whose path has no
// links on its way, and first for the directory. Links are not followed.
func (t *tree) walk(dir string, do func(name string, e Entry) error) error {
	return filepath.WalkDir(t.outside(dir), func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := t.inside(file)
		switch d.Type() {
		case fs.ModeDir:
			if slices.Contains(kernels(), name) {
				return &fs.PathError{Op: "pack", Path: name, Err: errElsewhere}
			}
			return do(name, directory(name))
		case fs.ModeSymlink:
			e, err := link(name, file)
			if err != nil {
				return err
			}
			return do(name, e)
		case 0:
			info, err := d.Info()
			if err != nil {
				return err
			}
			return do(name, regular(name, file, info))
		}
		return &fs.PathError{Op: "pack", Path: name, Err: errNotRegular}
	})
}

// put adds an entry, and the directories above it. Links of the image are
// followed on the way. It replaces what is there, but no directory by
// something else, nor the other way round.
func (t *tree) put(e Entry) error {
	dir, err := t.mkdir(path.Dir(e.Path))
	if err != nil {
		return err
	}
	e.Path = path.Join(dir, path.Base(e.Path))
	if e.Mode.IsDir() {
		if e.Path, err = t.mkdir(e.Path); err != nil {
			return err
		}
	}
	old, ok := t.entries[e.Path]
	if ok && old.Mode.IsDir() != e.Mode.IsDir() {
		return &fs.PathError{Op: "replace", Path: e.Path, Err: syscall.EISDIR}
	}
	t.set(e)
	return nil
}

// mkdir makes a directory with those above it, as far as they are not there, and
// returns its path without links.
func (t *tree) mkdir(name string) (string, error) {
	at, links := "/", 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		head := rest[0]
		rest = rest[1:]
		if head == "" || head == "." {
			continue
		}
		next := path.Join(at, head) // ".." of the root is the root
		e, ok := t.entries[next]
		switch {
		case next == "/":
		case !ok:
			t.entries[next] = directory(next)
		case e.Mode.Type() == fs.ModeSymlink:
			if links++; links > maxLinks {
				return "", &fs.PathError{Op: "make", Path: name, Err: syscall.ELOOP}
			}
			if path.IsAbs(e.Target) {
				at = "/"
			}
			rest = append(strings.Split(e.Target, "/"), rest...)
			continue
		case !e.Mode.IsDir():
			return "", &fs.PathError{Op: "make", Path: name, Err: syscall.ENOTDIR}
		}
		at = next
	}
	return at, nil
}
