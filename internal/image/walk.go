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

// The kinds of entries. A layer can contain nothing else.
const (
	File      Kind = iota + 1 // a regular file
	Directory                 // a directory, new or with another mode
	Symlink                   // a symbolic link with any target
	Hardlink                  // another name of a file
	Whiteout                  // removes what lower layers have at the path
	Opaque                    // removes what lower layers have in the directory at the path
)

// An Entry is one checked entry of a layer: nothing in it leaves the root or exceeds the Limits.
type Entry struct {
	Kind   Kind
	Layer  int         // from the bottom; 0 is the first
	Path   string      // below the root, clean; "." is the root
	Target string      // of a hard link: another such path; of a symbolic link: unchecked
	Header *tar.Header // the archive's whole header; its names are unchecked
}

// walk calls visit for each entry of the layers, the bottom one first, each in its own order. The
// content of a file is valid only during the call. walk verifies every layer at its end, so what
// visit got is valid only if walk returns nil.
func walk(ctx context.Context, layers []layer, limits Limits, visit func(Entry, io.Reader) error) error {
	w := &walker{limits: limits, visit: visit}
	for n, l := range layers {
		if err := w.layer(ctx, n, l); err != nil {
			return fmt.Errorf("layer %s: %w", l.diffID, err)
		}
	}
	return nil
}

// A walker checks all entries against the limits.
type walker struct {
	limits Limits
	visit  func(Entry, io.Reader) error

	stored  int64 // bytes of the layers so far, as they are stored
	read    int64 // uncompressed bytes of all layers
	written int64 // bytes of all files; more than read if files are sparse
	entries int
	names   int64 // bytes of all names, which visitors keep in memory
}

// A bomb is recognised by the sizes that its entries claim, before anything is written: no honest
// layer is much smaller than a hundredth of its content. Small images are exempt.
const (
	maxRatio       = 200
	ratioFreeBytes = 256 << 20
	ratioMessage   = "%w: the files have %d bytes but their layers only %d: more than %d times as much may be a " +
		"compression bomb"
)

// maxDepth limits the depth of a path, and so the time to reach an entry.
const maxDepth = 256

// maxImplied limits the directories for which an image has no entry. Honest tools write entries for
// all. One long path can imply two thousand directories.
const maxImplied = 100_000

// maxNames limits the memory for names, in bytes: enough for a million long ones.
const maxNames = 256 << 20

func (w *walker) layer(ctx context.Context, n int, l layer) error {
	r, err := l.uncompressed()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	w.stored += l.size
	bounded := w.limitedReader(ctx, r)
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
	// Read to the very end, where the digest is verified.
	_, err = io.Copy(io.Discard, bounded)
	return err
}

// limitedReader returns a reader of r that fails when all layers together have too many bytes, or when the
// context has ended.
func (w *walker) limitedReader(ctx context.Context, r io.Reader) io.Reader {
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

// count counts an entry, and returns an error if a limit is exceeded.
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
		return fmt.Errorf("%w: all names together have more than %d bytes", ErrHostile, maxNames)
	case h.Size < 0 || w.written > l.Bytes || w.written < 0:
		return fmt.Errorf("%w: all files together have more than %d bytes", ErrHostile, l.Bytes)
	case w.written > ratioFreeBytes && w.written/maxRatio > w.stored:
		return fmt.Errorf(ratioMessage, ErrHostile, w.written, w.stored, maxRatio)
	case !validID(h.Uid) || !validID(h.Gid):
		return fmt.Errorf("%w: invalid owner %d:%d", ErrHostile, h.Uid, h.Gid)
	}
	return nil
}

// validID reports whether the kernel accepts id as a user or group. -1, and a number that is
// truncated to it, means none.
func validID(id int) bool { return id >= 0 && id < math.MaxUint32 }

// entryOf checks a header. Its Kind is 0 if there is nothing to do.
func entryOf(h *tar.Header) (Entry, error) {
	name, err := localPath(h.Name)
	if err != nil {
		return Entry{}, err
	}
	if hidden, ok := strings.CutPrefix(path.Base(name), whiteout); ok {
		return whiteoutEntry(path.Dir(name), hidden, h)
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
		return Entry{}, fmt.Errorf("%w: it is a device or FIFO: remove it from the image; engines make their own",
			ErrHostile)
	default:
		return Entry{}, fmt.Errorf("%w: unknown kind of entry %q", ErrHostile, h.Typeflag)
	}
	return e, nil
}

// localPath returns an entry's name without parts such as "./". It refuses a name that tries to
// leave the root and does not correct it, because no honest tool writes one.
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

// White-outs are empty files. Their names say what a layer removes from the layers below it; see
// "Layer Filesystem Changeset" in the OCI image format.
const (
	whiteout = ".wh."
	opaque   = ".wh..opq" // a white-out of everything in the directory
)

// whiteoutEntry reads the name of a white-out in dir.
func whiteoutEntry(dir, name string, h *tar.Header) (Entry, error) {
	switch {
	case name == opaque:
		return Entry{Kind: Opaque, Path: dir, Header: h}, nil
	case strings.HasPrefix(name, whiteout):
		return Entry{}, nil // internal data of an old storage driver
	case name == "" || name == "." || name == "..":
		return Entry{}, fmt.Errorf("%w: white-out of %q", ErrHostile, name)
	}
	return Entry{Kind: Whiteout, Path: path.Join(dir, name), Header: h}, nil
}
