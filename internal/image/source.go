package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// maxDocument limits manifests, indexes and configurations, in bytes, as registries do.
const maxDocument = 4 << 20

// A source has the files of an image. If there is no file with a name, the error wraps
// fs.ErrNotExist.
type source interface {
	// open returns a file's content and its claimed length in bytes.
	open(name string) (io.ReadCloser, int64, error)
}

// readDocument reads a whole small file.
func readDocument(src source, name string) ([]byte, error) {
	r, _, err := src.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read from
	b, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > maxDocument {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, maxDocument)
	}
	return b, nil
}

// memory is a source of files in memory.
type memory map[string][]byte

func (m memory) open(name string) (io.ReadCloser, int64, error) {
	b, ok := m[name]
	if !ok {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

// directory is a source of the files below a directory.
type directory string

func (d directory) open(name string) (io.ReadCloser, int64, error) {
	// OpenRoot would wait forever for a writer if this were a FIFO.
	if info, err := os.Stat(string(d)); err != nil {
		return nil, 0, err
	} else if !info.IsDir() {
		return nil, 0, &fs.PathError{Op: "open", Path: string(d), Err: syscall.ENOTDIR}
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }() // files that were opened through it stay open
	return requireRegular(root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

// requireRegular refuses everything except regular files, because other kinds can be endless. Its
// arguments are the results of an open with O_NONBLOCK, because opening a FIFO would otherwise wait
// for a writer.
func requireRegular(f *os.File, err error) (*os.File, int64, error) {
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.Name())
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// An archive is a source of the files in an uncompressed tar file.
type archive struct {
	file    string
	name    string // for errors
	members map[string]member
}

// A member is the place of a file in an archive, or the name of another member.
type member struct {
	offset, size int64
	link         string
}

// Limits on an archive's table of contents. An image has a few hundred files.
const (
	maxMembers = 100_000
	maxLinks   = 8
)

// indexArchive finds the files in an archive. If two have the same name, the last one counts, as
// when the archive is unpacked. name is the archive's name in errors.
func indexArchive(ctx context.Context, file, name string) (*archive, error) {
	f, _, err := requireRegular(os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	a := &archive{file: file, name: name, members: make(map[string]member)}
	for n, tr := 0, tar.NewReader(f); ; n++ {
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			return a, nil
		case n > 0 && errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errTruncated(name)
		case err != nil:
			return nil, fmt.Errorf("%s: not a tar archive, such as 'docker save' and 'tare pack' write: %w", name, err)
		case n == maxMembers:
			return nil, fmt.Errorf("%s has more than %d members", name, maxMembers)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		// The tar reader reads whole blocks and no more, so the content comes next.
		offset, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		a.add(h, offset)
	}
}

// errTruncated is the error for a truncated archive.
func errTruncated(name string) error {
	return fmt.Errorf("%s is truncated: make or copy it again", name)
}

func (a *archive) add(h *tar.Header, offset int64) {
	name := path.Clean(h.Name)
	switch h.Typeflag {
	case tar.TypeReg:
		a.members[name] = member{offset: offset, size: h.Size}
	case tar.TypeLink:
		a.members[name] = member{link: path.Clean(h.Linkname)}
	case tar.TypeSymlink: // docker save writes this for a layer that occurs twice
		a.members[name] = member{link: path.Join(path.Dir(name), h.Linkname)}
	}
}

func (a *archive) open(name string) (io.ReadCloser, int64, error) {
	m, ok := a.members[path.Clean(name)]
	for n := 0; ok && m.link != "" && n < maxLinks; n++ {
		m, ok = a.members[m.link]
	}
	if !ok || m.link != "" {
		return nil, 0, &fs.PathError{Op: "open", Path: a.name + ": " + name, Err: fs.ErrNotExist}
	}
	f, _, err := requireRegular(os.OpenFile(a.file, os.O_RDONLY|syscall.O_NONBLOCK, 0))
	if err != nil {
		return nil, 0, err
	}
	return section{io.NewSectionReader(f, m.offset, m.size), f}, m.size, nil
}

// A section is a part of a file. Closing it closes the file.
type section struct {
	io.Reader
	io.Closer
}
