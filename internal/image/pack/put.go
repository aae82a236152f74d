package pack

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// walk calls do for a directory of the host and then for everything in it. The directory's path
// must not contain links, and walk follows none.
func (t *tree) walk(dir string, do func(name string, e Entry) error) error {
	return filepath.WalkDir(t.hostPath(dir), func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := t.inside(file)
		switch d.Type() {
		case fs.ModeDir:
			if slices.Contains(kernelDirs(), name) {
				return &fs.PathError{Op: "pack", Path: name, Err: errOutsideRoot}
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

// put adds an entry, and the directories above it. It follows links of the image on the path. It
// replaces an existing entry, but never a directory by something else, nor the reverse.
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

// mkdir makes a directory and the missing ones above it, and returns its path without links.
func (t *tree) mkdir(name string) (string, error) {
	at, links := "/", 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		head := rest[0]
		rest = rest[1:]
		if head == "" || head == "." {
			continue
		}
		next := path.Join(at, head) // ".." in the root is the root
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
