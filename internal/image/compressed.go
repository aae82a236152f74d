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
	switch c := compressionOf(head[:n]); c {
	case Plain:
		return file, nil
	case Gzip, Zstd:
		plain, err = l.expanded(ctx, f)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return "", cutOff(file)
		case err != nil:
			return "", fmt.Errorf("%s (%s): %w", file, c, err)
		}
		return plain, nil
	default:
		return "", fmt.Errorf("%s: it is compressed with %s, which tare does not read: unpack it first, or use gzip or zstd", file, c)
	}
}

// expanded is a file with what is compressed in another, made once for all libraries
// of one directory. Of a file that has changed it is another one, for an Image reads
// its archive as long as it lives.
func (l *Library) expanded(ctx context.Context, f *os.File) (plain string, err error) {
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
		return plain, nil // whole: keep renamed it into place
	}
	most := max(harmless, maxRatio*info.Size())
	return plain, l.keep(plain, "what is in it", func(w io.Writer) error {
		bounded := &boundedWriter{w, most, fmt.Errorf("%w: an archive of %d bytes holds more than %d, which is more than %d times as much: a compression bomb", ErrHostile, info.Size(), most, maxRatio)}
		return expand(Until(ctx, bounded), f)
	})
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
