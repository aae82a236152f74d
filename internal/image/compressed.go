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

// uncompressed returns an uncompressed version of a file: the file itself, or one below the
// library's directory if the file is compressed as a whole. Members of an archive can be found only
// in an uncompressed file.
func (l *Library) uncompressed(ctx context.Context, file string) (plain string, err error) {
	f, _, err := requireRegular(os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	var head [maxMagic]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch c := compressionOf(head[:n]); c {
	case Plain:
		return file, nil
	case Gzip, Zstd:
		plain, err = l.expand(ctx, f)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return "", errTruncated(file)
		case err != nil:
			return "", fmt.Errorf("%s (%s): %w", file, c, err)
		}
		return plain, nil
	default:
		return "", fmt.Errorf("%s: compressed with %s, which tare cannot read: decompress it first, or use gzip or "+
			"zstd", file, c)
	}
}

// expand returns a file with the decompressed content of f. It is made once for all libraries of
// one directory. If f has changed, it is a new file, because an existing Image still reads the old
// one.
func (l *Library) expand(ctx context.Context, f *os.File) (plain string, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(f.Name())
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s\x00%d\x00%d", path, info.Size(), info.ModTime().UnixNano())
	plain = filepath.Join(l.dir, "archives", fmt.Sprintf("%x.tar", sha256.Sum256([]byte(key))))
	if _, err := os.Stat(plain); err == nil {
		return plain, nil // complete, because keep renames it into place
	}
	most := max(ratioFreeBytes, maxRatio*info.Size())
	return plain, l.keep(plain, "its decompressed content", func(w io.Writer) error {
		bounded := &boundedWriter{w, most, fmt.Errorf("%w: the archive has %d bytes, but more than %d decompressed: "+
			"more than %d times as much may be a compression bomb", ErrHostile, info.Size(), most,
			maxRatio)}
		return expandTo(WriterContext(ctx, bounded), f)
	})
}

// expandTo writes the decompressed content of stored.
func expandTo(w io.Writer, stored io.ReadCloser) error {
	r, err := decompress(stored)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, r.Close())
}
