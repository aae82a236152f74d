package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
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
	member := func(name string, r io.Reader, size int64) error { return writeFile(tw, name, r, size) }
	err := i.writeMembers(member, tag)
	if err == nil {
		err = writeJSON(member, "manifest.json", i.saveManifest(tag))
	}
	if err == nil {
		err = tw.Close()
	}
	if err != nil {
		return fmt.Errorf("image %s: write archive: %w", i.ref, err)
	}
	return nil
}

// WriteLayout writes an image of programs of this host as an OCI image layout
// into an empty directory, under the name tag if that is not empty.
func (i *Image) WriteLayout(dir, tag string) error {
	if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755); err != nil {
		return err
	}
	member := func(name string, r io.Reader, _ int64) error {
		f, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(name)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, f.Close())
	}
	if err := i.writeMembers(member, tag); err != nil {
		return fmt.Errorf("image %s: write layout: %w", i.ref, err)
	}
	return nil
}

// A memberWriter puts one file of an image where it belongs.
type memberWriter func(name string, r io.Reader, size int64) error

// writeMembers writes the files of an OCI image layout.
func (i *Image) writeMembers(put memberWriter, tag string) error {
	if i.packed == nil {
		return errors.New("it is not of programs of this host")
	}
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(i.raw)), Digest: i.digest},
	}
	for _, l := range i.layers {
		if err := writeLayerBlob(put, l); err != nil {
			return err
		}
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.OCIUncompressedLayer, Size: l.size, Digest: l.diffID})
	}
	if err := putBytes(put, blobName(i.digest), i.raw); err != nil {
		return err
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if err := putBytes(put, blobName(digest), raw); err != nil {
		return err
	}
	d := v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: size, Digest: digest, Annotations: naming(tag)}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}}
	return errors.Join(
		writeJSON(put, "index.json", index),
		putBytes(put, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)),
	)
}

// writeLayerBlob writes a layer that is stored uncompressed, and verifies it.
func writeLayerBlob(put memberWriter, l layer) error {
	r, err := l.stored()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read from
	return put(blobName(l.diffID), verified(r, l.diffID, l.file), l.size)
}

// saveManifest is what "docker save" tells of the same files.
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

// naming says how an image is called in the words of containerd, and of those
// who know only the part after the colon.
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

func putBytes(put memberWriter, name string, data []byte) error {
	return put(name, bytes.NewReader(data), int64(len(data)))
}

func writeJSON(put memberWriter, name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return putBytes(put, name, raw)
}

// Until is w, until the context has ended.
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
