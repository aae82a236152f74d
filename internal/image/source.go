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

// maxDocument bounds manifests, indexes and configurations, as registries do.
const maxDocument = 4 << 20

// A source holds the files of an image. An error wraps fs.ErrNotExist where
// there is no file of that name.
type source interface {
	// open returns a file's content and how long it claims to be.
	open(name string) (io.ReadCloser, int64, error)
}

// readDocument reads a small file whole.
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
	// OpenRoot would wait for ever for somebody to write into a FIFO.
	if info, err := os.Stat(string(d)); err != nil {
		return nil, 0, err
	} else if !info.IsDir() {
		return nil, 0, &fs.PathError{Op: "open", Path: string(d), Err: syscall.ENOTDIR}
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }() // files opened through it stay open
	return regular(root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

// regular refuses everything but regular files, which others could make
// endless. It takes what an open without blocking returned: to open a FIFO
// waits for a writer otherwise.
func regular(f *os.File, err error) (*os.File, int64, error) {
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
	name    string // how others call it
	members map[string]member
}

// A member is where a file lies in an archive, or the name of another member.
type member struct {
	offset, size int64
	link         string
}

// The limits of an archive's table of contents. An image has some hundred files.
const (
	maxMembers = 100_000
	maxLinks   = 8
)

// indexArchive finds the files in an archive. Of two with one name the last
// counts, as it does when the archive is unpacked. Errors call it by name.
func indexArchive(ctx context.Context, file, name string) (*archive, error) {
	f, _, err := regular(os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0))
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
			return nil, cutOff(name)
		case err != nil:
			return nil, fmt.Errorf("%s: not a tar archive, which 'docker save' and 'tare pack' write: %w", name, err)
		case n == maxMembers:
			return nil, fmt.Errorf("%s has more than %d members", name, maxMembers)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		// The reader takes whole blocks and no more, so what comes next is the content.
		offset, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		a.add(h, offset)
	}
}

// cutOff is the error for an archive that ends before its end.
func cutOff(name string) error {
	return fmt.Errorf("%s ends in the middle: it was cut off; make or copy it again", name)
}

func (a *archive) add(h *tar.Header, offset int64) {
	name := path.Clean(h.Name)
	switch h.Typeflag {
	case tar.TypeReg:
		a.members[name] = member{offset: offset, size: h.Size}
	case tar.TypeLink:
		a.members[name] = member{link: path.Clean(h.Linkname)}
	case tar.TypeSymlink: // what docker save writes for a layer that occurs twice
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
	f, _, err := regular(os.OpenFile(a.file, os.O_RDONLY|syscall.O_NONBLOCK, 0))
	if err != nil {
		return nil, 0, err
	}
	return section{io.NewSectionReader(f, m.offset, m.size), f}, m.size, nil
}

// A section is part of a file, and closes it.
type section struct {
	io.Reader
	io.Closer
}
