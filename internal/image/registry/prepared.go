package registry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tare-bench/tare/internal/image"
)

// A Prepared is an image that is ready to be served. Its methods may be called
// concurrently.
type Prepared struct {
	config v1.ConfigFile
	layers []layer // bottom first
}

// Prepare compresses an image's layers, and those of a Padding on top of them, into files of dir. It
// reuses existing files of the same image and the same Padding. The caller removes dir.
func Prepare(ctx context.Context, dir string, img *image.Image, padding Padding) (*Prepared, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image %s: configuration: %w", img.Ref(), err)
	}
	s := &Prepared{config: *config}
	err = img.EachLayer(ctx, func(archive io.Reader) error {
		id := strings.TrimPrefix(config.RootFS.DiffIDs[len(s.layers)].String(), "sha256:")
		return s.add(cachedLayer(dir, id, func(w io.Writer) error {
			if err := entries(w, archive); err != nil {
				return err
			}
			_, err := io.Copy(io.Discard, archive) // to the end, where the digest is verified
			return err
		}))
	})
	for i := 0; i < padding.Layers && err == nil; i++ {
		err = s.add(
			cachedLayer(dir, padding.name(i), func(w io.Writer) error { return padding.write(image.WriterContext(ctx, w), i) }),
		)
		s.config.History = append(s.config.History,
			v1.History{Created: v1.Time{Time: time.Unix(0, 0).UTC()}, CreatedBy: "tare"})
	}
	return s, err
}

func (s *Prepared) add(l layer, err error) error {
	s.layers = append(s.layers, l)
	return err
}

// A Content is an image that is served once.
type Content struct {
	Digest string // of its configuration: the image's ID in engines
	Bytes  int64  // of its blobs: compressed layers and configuration
	Plain  int64  // bytes of its layers, uncompressed

	id       string // of the salt
	manifest []byte
	name     string // digest of the manifest
	blobs    map[string]blob
}

// Content returns an image of the prepared image's files with one more file of random bytes in each layer,
// so that no engine has any of its layers.
func (s *Prepared) Content() (*Content, error) {
	c := &Content{id: strings.ToLower(rand.Text()), blobs: map[string]blob{}}
	config := s.config
	config.RootFS.DiffIDs = nil
	var layers []v1.Descriptor
	for i, l := range s.layers {
		b, digest, diffID, err := l.salted(fmt.Sprintf(".tare-salt-%d", i), c.id)
		if err != nil {
			return nil, err
		}
		c.Plain += l.Plain
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, hashOf(diffID))
		layers = append(layers, c.put(digest, types.OCILayer, b))
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	about := c.put(digestBytes(raw), types.OCIConfigJSON, blob{tail: raw})
	c.Digest = about.Digest.String()
	c.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: about, Layers: layers,
	})
	c.name = digestBytes(c.manifest)
	return c, err
}

func (c *Content) put(digest string, kind types.MediaType, b blob) v1.Descriptor {
	c.blobs[digest] = b
	c.Bytes += b.size()
	return v1.Descriptor{MediaType: kind, Size: b.size(), Digest: hashOf(digest)}
}

// Is reports whether a digest is the content's: that of its configuration or, as in newer stores,
// of its manifest.
func (c *Content) Is(digest string) bool { return digest == c.Digest || digest == c.name }

func digestBytes(p []byte) string {
	h := sha256.New()
	h.Write(p)
	return digestOf(h)
}

// hashOf parses a digest that this package made.
func hashOf(digest string) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: strings.TrimPrefix(digest, "sha256:")}
}
