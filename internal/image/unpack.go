package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"syscall"
)

// ErrHostile is wrapped by the error for an image that must not be unpacked:
// an entry that reaches out of the root or is of a forbidden kind, or more of
// anything than the Limits allow.
var ErrHostile = errors.New("refused")

// unpack makes dir and applies the layers to it, bottom first. It returns the
// number of bytes in the files it wrote.
func unpack(ctx context.Context, layers []layer, dir string, limits Limits) (int64, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }() // only a handle for the kernel
	u := &unpacker{root: root, limits: limits, owner: os.Geteuid() == 0}
	for _, l := range layers {
		if err := u.layer(ctx, l); err != nil {
			return 0, err
		}
	}
	return u.written, nil
}

// An unpacker applies layers to a root. All access goes through os.Root,
// which follows no symbolic link out of it.
type unpacker struct {
	root   *os.Root
	limits Limits
	owner  bool // apply owners and setuid bits

	made    map[string]bool // what the current layer made, which its white-outs spare
	read    int64           // uncompressed bytes of all layers
	written int64           // bytes of all files; more than read where files are sparse
	entries int
	names   int64 // bytes of all names, which made keeps in memory
}

// maxNames bounds the memory for names: a million of them, and long ones.
const maxNames = 256 << 20

func (u *unpacker) layer(ctx context.Context, l layer) error {
	r, err := l.uncompressed()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	u.made = make(map[string]bool)
	bounded := u.bound(ctx, r)
	for tr := tar.NewReader(bounded); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("layer %s: %w", l.diffID, err)
		}
		if err := u.entry(h, tr); err != nil {
			return fmt.Errorf("layer %s: %.300q: %w", l.diffID, h.Name, err)
		}
	}
	// To the very end, where the digest is verified.
	if _, err := io.Copy(io.Discard, bounded); err != nil {
		return fmt.Errorf("layer %s: %w", l.diffID, err)
	}
	return nil
}

// bound returns r with an end when all layers together have said too much, or
// when the context has ended.
func (u *unpacker) bound(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := r.Read(p)
		u.read += int64(n)
		if u.read > u.limits.Bytes {
			return 0, fmt.Errorf("%w: more than %d bytes uncompressed", ErrHostile, u.limits.Bytes)
		}
		return n, err
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// entry applies one entry of a layer.
func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if err := u.count(h); err != nil {
		return err
	}
	name, err := localPath(h.Name)
	if err != nil {
		return err
	}
	if hidden, ok := strings.CutPrefix(path.Base(name), whiteout); ok {
		return u.whiteout(path.Dir(name), hidden)
	}
	if err := u.place(name, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.directory(name, h)
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, h, content)
	case tar.TypeSymlink:
		return u.symlink(name, h)
	case tar.TypeLink:
		return u.link(name, h)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return fmt.Errorf("%w: it is a device or FIFO; take it out of the image, engines make their own", ErrHostile)
	}
	return fmt.Errorf("%w: unknown kind of entry %q", ErrHostile, h.Typeflag)
}

// count books an entry and reports when it is one too many, or too long.
func (u *unpacker) count(h *tar.Header) error {
	u.entries++
	u.names += int64(len(h.Name))
	if h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse {
		u.written += h.Size
	}
	switch l := u.limits; {
	case u.entries > l.Entries:
		return fmt.Errorf("%w: more than %d entries", ErrHostile, l.Entries)
	case len(h.Name) > l.Path || len(h.Linkname) > l.Path:
		return fmt.Errorf("%w: path longer than %d bytes", ErrHostile, l.Path)
	case u.names > maxNames:
		return fmt.Errorf("%w: names of more than %d bytes in all", ErrHostile, maxNames)
	case h.Size < 0 || u.written > l.Bytes || u.written < 0:
		return fmt.Errorf("%w: files of more than %d bytes in all", ErrHostile, l.Bytes)
	case !validID(h.Uid) || !validID(h.Gid):
		return fmt.Errorf("%w: owner %d:%d", ErrHostile, h.Uid, h.Gid)
	}
	return nil
}

// validID reports whether the kernel takes id for a user or group; -1, and
// what is cut to it, means none.
func validID(id int) bool { return id >= 0 && id < math.MaxUint32 }

// localPath returns an entry's name without decoration such as "./". A name
// that tries to leave the root is refused and not bent into shape: no honest
// tool writes one.
func localPath(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") {
		return "", fmt.Errorf("%w: path is not relative to the root", ErrHostile)
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return "", fmt.Errorf("%w: path contains \"..\"", ErrHostile)
		}
	}
	return path.Clean(name), nil
}

// place makes room for an entry: its parents are there, and nothing has its
// name unless that is a directory and stays one.
func (u *unpacker) place(name string, directory bool) error {
	parent := path.Dir(name)
	if err := u.root.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	for dir := name; dir != "." && !u.made[dir]; dir = path.Dir(dir) {
		u.made[dir] = true
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
		// Before the mode: a change of owner takes setuid bits and capabilities away.
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

// setCapability gives a file the capabilities that it has in the image.
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

// symlink keeps the link as it is, also one that points out of the root or
// nowhere: inside a container it means something else.
func (u *unpacker) symlink(name string, h *tar.Header) error {
	if err := u.root.Symlink(h.Linkname, name); err != nil {
		return err
	}
	if !u.owner {
		return nil
	}
	return u.root.Lchown(name, h.Uid, h.Gid)
}

func (u *unpacker) link(name string, h *tar.Header) error {
	target, err := localPath(h.Linkname)
	if err != nil {
		return fmt.Errorf("hard link to %.300q: %w", h.Linkname, err)
	}
	return u.root.Link(target, name)
}
