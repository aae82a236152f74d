package pack

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// WriteLayer writes entries as a layer of an image, an uncompressed tar archive.
// The same entries give the same bytes. It returns an error if a file has changed since it was
// found.
func WriteLayer(ctx context.Context, w io.Writer, entries []Entry) error {
	tw := tar.NewWriter(w)
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := e.write(tw); err != nil {
			return fmt.Errorf("pack %s: %w", e.Path, err)
		}
	}
	return tw.Close()
}

func (e Entry) write(tw *tar.Writer) error {
	if err := tw.WriteHeader(e.header()); err != nil {
		return err
	}
	if e.info == nil {
		_, err := io.Copy(tw, bytes.NewReader(e.Data))
		return err
	}
	return e.copy(tw)
}

func (e Entry) header() *tar.Header {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(e.Path, "/"), Size: e.Size,
		Mode: int64(e.Mode.Perm()), Uid: e.UID, Gid: e.GID, ModTime: time.Unix(0, 0),
	}
	switch e.Mode.Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case fs.ModeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Target
	}
	if e.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	return h
}

// copy writes the content of a file of the host.
func (e Entry) copy(w io.Writer) (err error) {
	f, err := pathTrace{e}.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if err := e.unchanged(now); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, e.Size)
	return err
}
