package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteArchive writes an image of programs of this host as one archive that is
// both what "docker save" writes and an OCI image layout, under the name tag if
// that is not empty. The same image and tag give the same bytes.
func (i *Image) WriteArchive(w io.Writer, tag string) error {
	tw := tar.NewWriter(w)
	err := i.writeMembers(tw, tag)
	if err == nil {
		err = tw.Close()
	}
	if err != nil {
		return fmt.Errorf("image %s: write archive: %w", i.ref, err)
	}
	return nil
}

// writeMembers writes the files of an OCI image layout, and docker's manifest.
func (i *Image) writeMembers(tw *tar.Writer, tag string) error {
	if i.packed == nil {
		return errors.New("the image is not made of programs of this host")
	}
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(i.raw)), Digest: i.digest},
	}
	for _, l := range i.layers {
		if err := writeLayerBlob(tw, l); err != nil {
			return err
		}
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.OCIUncompressedLayer, Size: l.size, Digest: l.diffID})
	}
	if err := writeBytes(tw, blobName(i.digest), i.raw); err != nil {
		return err
	}

	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	digest := digestOf(raw)
	if err := writeBytes(tw, blobName(digest), raw); err != nil {
		return err
	}
	d := v1.Descriptor{
		MediaType: types.OCIManifestSchema1, Size: int64(len(raw)), Digest: digest, Annotations: naming(tag),
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}}
	return errors.Join(
		writeJSON(tw, "index.json", index),
		writeBytes(tw, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)),
		writeJSON(tw, "manifest.json", i.saveManifest(tag)),
	)
}

// writeLayerBlob writes a layer that is stored uncompressed, and verifies it.
func writeLayerBlob(tw *tar.Writer, l layer) error {
	r, err := l.stored()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	return writeFile(tw, blobName(l.diffID), verified(r, l.diffID, l.file), l.size)
}

// saveManifest is the manifest of "docker save" for the same files.
func (i *Image) saveManifest(tag string) tarball.Manifest {
	m := tarball.Descriptor{Config: blobName(i.digest)}
	if tag != "" {
		m.RepoTags = []string{tag}
	}
	for _, l := range i.layers {
		if name := blobName(l.diffID); !slices.Contains(m.Layers, name) {
			m.Layers = append(m.Layers, name)
		}
	}
	return tarball.Manifest{m}
}

// naming are the annotations with an image's name: containerd's, and the one of tools that know
// only the part after the colon.
func naming(tag string) map[string]string {
	if tag == "" {
		return nil
	}
	return map[string]string{
		"io.containerd.image.name":          tag,
		"org.opencontainers.image.ref.name": tag[strings.LastIndex(tag, ":")+1:],
	}
}

func blobName(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

func writeBytes(tw *tar.Writer, name string, data []byte) error {
	return writeFile(tw, name, bytes.NewReader(data), int64(len(data)))
}

func writeJSON(tw *tar.Writer, name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeBytes(tw, name, raw)
}

// Until returns a writer to w that fails once the context has ended.
func Until(ctx context.Context, w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return w.Write(p)
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
