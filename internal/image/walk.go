package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strings"
)

// A Kind is what an entry of a layer does.
type Kind int

// The kinds of entries. A layer can hold nothing else.
const (
	File      Kind = iota + 1 // a regular file
	Directory                 // a directory, new or with another mode
	Symlink                   // a symbolic link, pointing wherever it likes
	Hardlink                  // another name of a file
	Whiteout                  // what lower layers have at the path is gone, with everything in it
	Opaque                    // what lower layers have in the directory at the path is gone
)

// An Entry is one entry of a layer, checked: nothing in it leaves the root, or
// is larger than the Limits allow.
type Entry struct {
	Kind   Kind
	Layer  int         // from the bottom; 0 is the first
	Path   string      // below the root, clean; "." is the root
	Target string      // of a hard link: another such path; of a symbolic link: as it is
	Header *tar.Header // all that the archive says; of a name in it nothing is checked
}

// Walk calls visit for each entry of the image's layers, the bottom one first,
// each in its own order. Content is that of a file, and cannot be kept. Nothing
// is written anywhere. Every layer is verified at its end: what visit was told
// counts only if Walk returns nil.
func (i *Image) Walk(ctx context.Context, visit func(e Entry, content io.Reader) error) error {
	if _, err := walk(ctx, i.layers, i.lib.limits, visit); err != nil {
		return fmt.Errorf("image %s: %w", i.ref, err)
	}
	return nil
}

// walk is Walk. It returns the number of bytes in all files.
func walk(ctx context.Context, layers []layer, limits Limits, visit func(Entry, io.Reader) error) (written int64, err error) {
	w := &walker{limits: limits, visit: visit}
	for n, l := range layers {
		if err := w.layer(ctx, n, l); err != nil {
			return 0, fmt.Errorf("layer %s: %w", l.diffID, err)
		}
	}
	return w.written, nil
}

// A walker checks what it walks through.
type walker struct {
	limits Limits
	visit  func(Entry, io.Reader) error

	stored  int64 // bytes of the layers so far, as they are stored
	read    int64 // uncompressed bytes of all layers
	written int64 // bytes of all files; more than read where files are sparse
	entries int
	names   int64 // bytes of all names, which visitors keep in memory
}

// A bomb is known by what its entries claim, before any of it is written: no
// honest layer is much smaller than a hundredth of what is in it. Small images of
// empty files are none.
const (
	maxRatio  = 200
	harmless  = 256 << 20
	ratioSays = "%w: files of %d bytes in layers of %d, more than %d times as much: a compression bomb"
)

// maxDepth bounds the time that it takes to get to an entry.
const maxDepth = 256

// MaxImplied bounds the directories that an image does not name, but only puts
// something into. Honest tools name them all; one long path names two thousand.
const MaxImplied = 100_000

// maxNames bounds the memory for names: a million of them, and long ones.
const maxNames = 256 << 20

func (w *walker) layer(ctx context.Context, n int, l layer) error {
	r, err := l.uncompressed()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	w.stored += l.size
	bounded := w.bound(ctx, r)
	for tr := tar.NewReader(bounded); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := w.entry(n, h, tr); err != nil {
			return fmt.Errorf("%.300q: %w", h.Name, err)
		}
	}
	// To the very end, where the digest is verified.
	_, err = io.Copy(io.Discard, bounded)
	return err
}

// bound returns r with an end when all layers together have said too much, or
// when the context has ended.
func (w *walker) bound(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := r.Read(p)
		w.read += int64(n)
		if w.read > w.limits.Bytes {
			return 0, fmt.Errorf("%w: more than %d bytes uncompressed", ErrHostile, w.limits.Bytes)
		}
		return n, err
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (w *walker) entry(layer int, h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if err := w.count(h); err != nil {
		return err
	}
	e, err := entryOf(h)
	if err != nil || e.Kind == 0 {
		return err
	}
	e.Layer = layer
	return w.visit(e, content)
}

// count books an entry and reports when it is one too many, or too long.
func (w *walker) count(h *tar.Header) error {
	w.entries++
	w.names += int64(len(h.Name))
	if h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse {
		w.written += h.Size
	}
	switch l := w.limits; {
	case w.entries > l.Entries:
		return fmt.Errorf("%w: more than %d entries", ErrHostile, l.Entries)
	case len(h.Name) > l.Path || len(h.Linkname) > l.Path:
		return fmt.Errorf("%w: path longer than %d bytes", ErrHostile, l.Path)
	case strings.Count(h.Name, "/") > maxDepth:
		return fmt.Errorf("%w: path deeper than %d directories", ErrHostile, maxDepth)
	case w.names > maxNames:
		return fmt.Errorf("%w: names of more than %d bytes in all", ErrHostile, maxNames)
	case h.Size < 0 || w.written > l.Bytes || w.written < 0:
		return fmt.Errorf("%w: files of more than %d bytes in all", ErrHostile, l.Bytes)
	case w.written > harmless && w.written/maxRatio > w.stored:
		return fmt.Errorf(ratioSays, ErrHostile, w.written, w.stored, maxRatio)
	case !validID(h.Uid) || !validID(h.Gid):
		return fmt.Errorf("%w: owner %d:%d", ErrHostile, h.Uid, h.Gid)
	}
	return nil
}

// validID reports whether the kernel takes id for a user or group; -1, and
// what is cut to it, means none.
func validID(id int) bool { return id >= 0 && id < math.MaxUint32 }

// entryOf checks a header. Its Kind is 0 if there is nothing to do.
func entryOf(h *tar.Header) (Entry, error) {
	name, err := localPath(h.Name)
	if err != nil {
		return Entry{}, err
	}
	if hidden, ok := strings.CutPrefix(path.Base(name), whiteout); ok {
		return hiding(path.Dir(name), hidden, h)
	}
	e := Entry{Path: name, Header: h}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Kind = Directory
	case tar.TypeReg, tar.TypeGNUSparse:
		e.Kind = File
	case tar.TypeSymlink:
		e.Kind, e.Target = Symlink, h.Linkname
	case tar.TypeLink:
		e.Kind = Hardlink
		if e.Target, err = localPath(h.Linkname); err != nil {
			return Entry{}, fmt.Errorf("hard link to %.300q: %w", h.Linkname, err)
		}
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return Entry{}, fmt.Errorf("%w: it is a device or FIFO; take it out of the image, engines make their own", ErrHostile)
	default:
		return Entry{}, fmt.Errorf("%w: unknown kind of entry %q", ErrHostile, h.Typeflag)
	}
	return e, nil
}

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

// White-outs are empty files whose names say what a layer takes away from the
// layers below it; see "Layer Filesystem Changeset" in the OCI image format.
const (
	whiteout = ".wh."
	opaque   = ".wh..opq" // after whiteout: everything in the directory
)

// hiding reads the name of a white-out in dir.
func hiding(dir, name string, h *tar.Header) (Entry, error) {
	switch {
	case name == opaque:
		return Entry{Kind: Opaque, Path: dir, Header: h}, nil
	case strings.HasPrefix(name, whiteout):
		return Entry{}, nil // book-keeping of an old storage driver
	case name == "" || name == "." || name == "..":
		return Entry{}, fmt.Errorf("%w: white-out of %q", ErrHostile, name)
	}
	return Entry{Kind: Whiteout, Path: path.Join(dir, name), Header: h}, nil
}
