package registry

import (
	"archive/tar"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"
)

// A Padding adds layers to an image, so that the pull has a chosen size. The files are the same on
// every machine.
type Padding struct {
	Layers       int     // how many
	Size         int64   // bytes of the files of each
	Files        int     // in each; they share the bytes evenly
	Compressible float64 // share of the bytes that compression removes, 0 to 1
}

// name differs between layers with different content.
func (f Padding) name(layer int) string {
	return fmt.Sprintf("fill-%d-%d-%d-%d", layer, f.Size, f.Files, f.block())
}

// A block of filler begins with random bytes, and the rest is constant.
const blockSize = 4096

// block is how much of a block is random.
func (f Padding) block() int { return int(math.Round(blockSize * (1 - f.Compressible))) }

// write writes the entries of one of the layers.
func (f Padding) write(w io.Writer, layer int) error {
	tw := tar.NewWriter(w)
	dir := fmt.Sprintf("tare-fill-%d/", layer)
	epoch := time.Unix(0, 0)
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: epoch}); err != nil {
		return err
	}
	content := newPaddingReader(f, layer)
	for i := range f.Files {
		size := partSize(f.Size, f.Files, i)
		h := &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("%s%06d", dir, i), Mode: 0o644, Size: size, ModTime: epoch}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if err := content.copy(tw, size); err != nil {
			return err
		}
	}
	return tw.Flush() // without the end
}

// partSize is the size of the ith of n equal parts of the whole.
func partSize(whole int64, n, i int) int64 {
	each, rest := whole/int64(n), whole%int64(n)
	if int64(i) < rest {
		each++
	}
	return each
}

// A paddingReader is an endless source of bytes.
type paddingReader struct {
	random *rand.ChaCha8
	part   int // random bytes of a block
	buffer [blockSize]byte
}

func newPaddingReader(f Padding, layer int) *paddingReader {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(layer))
	c := &paddingReader{random: rand.NewChaCha8(seed), part: f.block()}
	for i := range c.buffer {
		c.buffer[i] = "tare fills this image with the same bytes everywhere. "[i%54]
	}
	return c
}

func (c *paddingReader) copy(w io.Writer, size int64) error {
	for size > 0 {
		_, _ = c.random.Read(c.buffer[:c.part]) // never fails
		n, err := w.Write(c.buffer[:min(size, blockSize)])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	return nil
}
