package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// uncompressed is a file with the content of another that may be compressed as a
// whole: the same, or one below the library's directory. The members of an archive
// can be found only in that.
func (l *Library) uncompressed(ctx context.Context, file string) (plain string, err error) {
	f, _, err := regular(os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	var head [maxMagic]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	c := compressionOf(head[:n])
	if c == Plain {
		return file, nil
	}
	plain = filepath.Join(l.dir, "archives", fmt.Sprintf("%x.tar", sha256.Sum256([]byte(file))))
	err = l.keep(plain, "what is in it", func(w io.Writer) error { return expand(Until(ctx, w), f) })
	if err != nil {
		return "", fmt.Errorf("%s (%s): %w", file, c, err)
	}
	return plain, nil
}

// expand writes what is compressed.
func expand(w io.Writer, stored io.ReadCloser) error {
	r, err := decompress(stored)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, r.Close())
}
