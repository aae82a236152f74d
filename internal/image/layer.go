package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// ErrDigest means that content does not match its digest.
var ErrDigest = errors.New("content does not match its digest")

// A layer is one file of a source: a tar archive, compressed or not.
type layer struct {
	source source
	file   string
	size   int64   // as stored
	digest v1.Hash // as stored; zero if the source does not tell
	diffID v1.Hash // uncompressed
}

// writeTo adds the layer to an archive, as it is stored. Only zstd is decompressed, to at most most
// bytes, because docker 20.10 cannot read it.
func (l layer) writeTo(tw *tar.Writer, name string, most int64) error {
	compression, err := l.compression()
	if err != nil {
		return err
	}
	open, size := l.stored, l.size
	switch compression {
	case Plain: // it is the same, and is verified even where nobody said what it is as stored
		open = l.uncompressed
	case Zstd:
		open = l.uncompressed
		if size, err = l.length(most); err != nil {
			return err
		}
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	return writeFile(tw, name, r, size)
}

// length reads the layer to learn its uncompressed length.
func (l layer) length(most int64) (int64, error) {
	r, err := l.uncompressed()
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }() // only read from
	n, err := io.Copy(io.Discard, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("layer %s: %w: more than %d bytes uncompressed", l.file, ErrHostile, most)
	}
	return n, err
}

// uncompressed opens the layer's archive. The digest is verified when the end is reached.
func (l layer) uncompressed() (io.ReadCloser, error) {
	stored, err := l.stored()
	if err != nil {
		return nil, err
	}
	r, err := decompress(stored)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("layer %s: %w", l.file, err), stored.Close())
	}
	return verified(r, l.diffID, l.file), nil
}

// compression returns how the layer is compressed, by its first bytes.
func (l layer) compression() (Compression, error) {
	r, err := l.stored()
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }() // only read from
	var head [maxMagic]byte
	n, err := io.ReadFull(r, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) && !errors.Is(err, ErrDigest) {
		return "", fmt.Errorf("layer %s: %w", l.file, err)
	}
	return compressionOf(head[:n]), nil
}

// stored opens the layer as it is stored.
func (l layer) stored() (io.ReadCloser, error) {
	r, size, err := l.source.open(l.file)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	if size != l.size {
		return nil, errors.Join(fmt.Errorf("layer %s: %w: it has %d bytes, but should have %d", l.file, ErrDigest,
			size, l.size), r.Close())
	}
	if l.digest == (v1.Hash{}) {
		return r, nil
	}
	return verified(r, l.digest, l.file), nil
}

// verified returns a reader of r that ends with an error if the content does not have the digest
// want.
func verified(r io.ReadCloser, want v1.Hash, name string) io.ReadCloser {
	return &verifier{ReadCloser: r, sum: sha256.New(), want: want, name: name}
}

type verifier struct {
	io.ReadCloser
	sum  hash.Hash
	want v1.Hash
	name string
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.sum.Write(p[:n])
	if errors.Is(err, io.EOF) {
		if got := hex.EncodeToString(v.sum.Sum(nil)); v.want.Algorithm != "sha256" || got != v.want.Hex {
			return n, fmt.Errorf("%s: %w: sha256:%s, but should be %s", v.name, ErrDigest, got, v.want)
		}
	}
	return n, err
}
