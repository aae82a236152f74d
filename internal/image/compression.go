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

// The compressions that images use. Others are refused by name.
const (
	Plain Compression = "none"
	Gzip  Compression = "gzip"
	Zstd  Compression = "zstd"
	bzip2 Compression = "bzip2"
	xz    Compression = "xz"
)

// maxMagic is how many first bytes tell them apart.
const maxMagic = 6

// compressionOf tells a compression by its first bytes.
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

// maxWindow bounds the memory for what zstd looks back at: the most that its
// program uses unless it is told otherwise.
const maxWindow = 128 << 20

// decompress returns the content of what is compressed, or not. Closing it
// closes stored.
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
		unpacked, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return &closing{unpacked, func() error { unpacked.Close(); return stored.Close() }}, nil
	case Plain:
		return &closing{r, stored.Close}, nil
	default:
		return nil, fmt.Errorf("it is compressed with %s: images use gzip, zstd or nothing", c)
	}
}

// closing is a reader with a close of its own.
type closing struct {
	io.Reader
	close func() error
}

// Close implements io.Closer.
func (c *closing) Close() error { return c.close() }
