package image

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// White-outs are empty files whose names say what a layer takes away from the
// layers below it; see "Layer Filesystem Changeset" in the OCI image format.
const (
	whiteout = ".wh."
	opaque   = ".wh..opq" // after whiteout: everything in the directory
)

// whiteout removes name from dir, or everything in dir, as far as it comes from a lower layer.
func (u *unpacker) whiteout(dir, name string) error {
	switch {
	case name == opaque:
		return u.hideChildren(dir)
	case strings.HasPrefix(name, whiteout):
		return nil // book-keeping of an old storage driver
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("%w: white-out of %q", ErrHostile, name)
	}
	return u.hide(path.Join(dir, name))
}

// hide removes name with everything in it, except what this layer made.
func (u *unpacker) hide(name string) error {
	if u.made[name] {
		return u.hideChildren(name)
	}
	return u.root.RemoveAll(name)
}

func (u *unpacker) hideChildren(dir string) error {
	// Not through a link: a layer that makes one does not look into what it points to.
	info, err := u.root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	children, err := fs.ReadDir(u.root.FS(), dir)
	if err != nil {
		return err
	}
	for _, c := range children {
		if err := u.hide(path.Join(dir, c.Name())); err != nil {
			return err
		}
	}
	return nil
}
