package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// ErrHostile means that an image must not be unpacked: an entry reaches out of the root or is of a
// forbidden kind, or something exceeds the Limits.
var ErrHostile = errors.New("refused")

// unpack makes dir and applies the layers to it, bottom first. Users inside a container may enter
// the root, independent of the umask. The directory above it keeps the host's users out.
func unpack(ctx context.Context, layers []layer, dir string, limits Limits) error {
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755)); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only a directory's descriptor
	u := &unpacker{root: root, owner: os.Geteuid() == 0, layer: -1}
	return walk(ctx, layers, limits, u.entry)
}

// An unpacker applies layers to a root. All access goes through os.Root,
// which follows no symbolic link out of it.
type unpacker struct {
	root    *os.Root
	owner   bool            // apply owners and setuid bits
	layer   int             // the current one
	made    map[string]bool // paths that the layer made; its white-outs keep them
	implied int             // directories that the image uses without an entry for them
}

// entry applies one entry of a layer.
func (u *unpacker) entry(e Entry, content io.Reader) error {
	if e.Layer != u.layer {
		u.layer, u.made = e.Layer, make(map[string]bool)
	}
	switch e.Kind {
	case Whiteout:
		return u.removeLower(e.Path)
	case Opaque:
		return u.removeLowerChildren(e.Path)
	}
	if err := u.place(e.Path, e.Kind == Directory); err != nil {
		return err
	}
	switch e.Kind {
	case Directory:
		return u.directory(e.Path, e.Header)
	case File:
		return u.file(e.Path, e.Header, content)
	case Symlink:
		return u.symlink(e)
	default:
		return u.root.Link(e.Target, e.Path)
	}
}

// place prepares the place of an entry: it makes the parents and removes what has the same name,
// unless both are directories.
func (u *unpacker) place(name string, directory bool) error {
	parent := path.Dir(name)
	u.made[name] = true
	for dir := parent; dir != "." && !u.made[dir]; dir = path.Dir(dir) {
		u.made[dir] = true
		if u.implied++; u.implied > maxImplied {
			return fmt.Errorf("%w: more than %d directories without an entry", ErrHostile, maxImplied)
		}
	}
	if err := u.parents(parent); err != nil {
		return err
	}
	info, err := u.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || directory && info.IsDir() {
		return err
	}
	if name == "." {
		return fmt.Errorf("%w: the root is not a directory", ErrHostile)
	}
	return u.root.RemoveAll(name)
}

// parents makes a directory and the missing ones above it. Everybody may enter them, independent of
// the umask.
func (u *unpacker) parents(dir string) error {
	if info, err := u.root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if dir != "." {
		if err := u.parents(path.Dir(dir)); err != nil {
			return err
		}
	}
	if err := u.root.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return u.root.Chmod(dir, 0o755)
}

func (u *unpacker) directory(name string, h *tar.Header) error {
	err := u.root.Mkdir(name, 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if u.owner {
		if err := u.root.Lchown(name, h.Uid, h.Gid); err != nil {
			return err
		}
	}
	return u.root.Chmod(name, u.mode(h))
}

// mode returns the mode that a file or directory gets.
func (u *unpacker) mode(h *tar.Header) fs.FileMode {
	const special = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	mode := h.FileInfo().Mode() & (fs.ModePerm | special)
	if u.owner {
		return mode
	}
	mode &^= fs.ModeSetuid | fs.ModeSetgid
	if h.Typeflag == tar.TypeDir {
		mode |= 0o700
	}
	return mode
}

func (u *unpacker) file(name string, h *tar.Header, content io.Reader) (err error) {
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.CopyN(f, content, h.Size); err != nil {
		return err
	}
	if u.owner {
		// The owner comes before the mode, because a change of owner removes setuid bits and
		// capabilities.
		if err := f.Chown(h.Uid, h.Gid); err != nil {
			return err
		}
		if err := setCapability(f, h); err != nil {
			return err
		}
	}
	if err := f.Chmod(u.mode(h)); err != nil {
		return err
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

// setCapability gives a file its capabilities from the image.
func setCapability(f *os.File, h *tar.Header) error {
	const attribute = "security.capability"
	value, ok := h.PAXRecords["SCHILY.xattr."+attribute]
	if !ok {
		return nil
	}
	err := syscall.Setxattr(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), attribute, []byte(value), 0)
	if err != nil {
		return fmt.Errorf("set %s: %w", attribute, err)
	}
	return nil
}

// symlink keeps the link as it is, even if it points out of the root or nowhere, because inside a
// container it has another meaning.
func (u *unpacker) symlink(e Entry) error {
	if err := u.root.Symlink(e.Target, e.Path); err != nil {
		return err
	}
	if !u.owner {
		return nil
	}
	return u.root.Lchown(e.Path, e.Header.Uid, e.Header.Gid)
}
