package image

import (
	"errors"
	"io/fs"
	"path"
	"syscall"
)

// removeLower removes name with everything in it, except what this layer made.
func (u *unpacker) removeLower(name string) error {
	if u.made[name] {
		return u.removeLowerChildren(name)
	}
	return u.root.RemoveAll(name)
}

func (u *unpacker) removeLowerChildren(dir string) error {
	// Links are not followed: a white-out concerns the link and not its target.
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
		if err := u.removeLower(path.Join(dir, c.Name())); err != nil {
			return err
		}
	}
	return nil
}
