package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A Compression is how a layer is stored.
type Compression string

// The compressions of images. Errors name the others.
const (
	Plain Compression = "none"
	Gzip  Compression = "gzip"
	Zstd  Compression = "zstd"
	bzip2 Compression = "bzip2"
	xz    Compression = "xz"
)

// maxMagic is how many of the first bytes distinguish them.
const maxMagic = 6

// compressionOf recognises a compression by its first bytes.
func compressionOf(head []byte) Compression {
	for _, c := range []struct {
		magic string
		name  Compression
	}{
		{"\x1f\x8b", Gzip}, {"\x28\xb5\x2f\xfd", Zstd}, {"BZh", bzip2}, {"\xfd7zXZ\x00", xz},
	} {
		if bytes.HasPrefix(head, []byte(c.magic)) {
			return c.name
		}
	}
	return Plain
}

// maxWindow limits the memory for zstd's window, in bytes. The program zstd uses at most this much
// by default.
const maxWindow = 128 << 20

// decompress returns the uncompressed content of stored, which may be uncompressed itself. Closing
// it closes stored.
func decompress(stored io.ReadCloser) (io.ReadCloser, error) {
	r := bufio.NewReaderSize(stored, 64<<10)
	head, err := r.Peek(maxMagic)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch c := compressionOf(head); c {
	case Gzip:
		unpacked, err := gzip.NewReader(r)
		return &closing{unpacked, stored.Close}, err
	case Zstd:
		unpacked, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return &closing{unpacked, func() error { unpacked.Close(); return stored.Close() }}, nil
	case Plain:
		return &closing{r, stored.Close}, nil
	default:
		return nil, fmt.Errorf("compressed with %s: tare reads only gzip, zstd and uncompressed layers", c)
	}
}

// closing is a reader with a close of its own.
type closing struct {
	io.Reader
	close func() error
}

// Close implements io.Closer.
func (c *closing) Close() error { return c.close() }
