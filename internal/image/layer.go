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
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// ErrDigest is wrapped by the error for content that is not what its digest
// says.
var ErrDigest = errors.New("content does not match its digest")

// A layer is one file of a source: a tar archive, compressed or not.
type layer struct {
	source source
	file   string
	size   int64   // as stored
	digest v1.Hash // as stored; zero where the source does not say
	diffID v1.Hash // uncompressed
}

// writeTo adds the layer, as it is stored, to an archive.
func (l layer) writeTo(tw *tar.Writer, name string) error {
	r, err := l.Compressed()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	return writeFile(tw, name, r, l.size)
}

// uncompressed opens the layer's archive. What is read from it is verified
// when its end is reached.
func (l layer) uncompressed() (io.ReadCloser, error) {
	extended, err := partial.CompressedToLayer(l)
	if err != nil {
		return nil, err
	}
	r, err := extended.Uncompressed() // gzip, zstd or plain, by its first bytes
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", l.file, err)
	}
	return verified(r, l.diffID, l.file), nil
}

// The methods below make a layer a partial.CompressedLayer.

// Compressed opens the layer as it is stored.
func (l layer) Compressed() (io.ReadCloser, error) {
	r, size, err := l.source.open(l.file)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	if size != l.size {
		return nil, errors.Join(fmt.Errorf("layer %s: %w: %d bytes instead of %d", l.file, ErrDigest, size, l.size), r.Close())
	}
	if l.digest == (v1.Hash{}) {
		return r, nil
	}
	return verified(r, l.digest, l.file), nil
}

// Digest is the digest of the layer as it is stored.
func (l layer) Digest() (v1.Hash, error) { return l.digest, nil }

// Size is the number of bytes stored.
func (l layer) Size() (int64, error) { return l.size, nil }

// MediaType is not needed by anything that is done with a layer here.
func (l layer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// verified returns r with an error instead of its end if what was read is not
// what want says.
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
			return n, fmt.Errorf("%s: %w: sha256:%s instead of %s", v.name, ErrDigest, got, v.want)
		}
	}
	return n, err
}
