package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// ErrPlatform is wrapped by the error for an image of another operating
// system or architecture.
var ErrPlatform = errors.New("no image for linux/" + runtime.GOARCH)

// maxNesting bounds indexes within indexes. Real ones have two.
const maxNesting = 4

// maxLayers bounds the layers of an image. Engines stop at 127.
const maxLayers = 1000

func checkPlatform(os, arch string) error {
	if os == "linux" && arch == runtime.GOARCH {
		return nil
	}
	return fmt.Errorf("%w: it is for %s/%s", ErrPlatform, os, arch)
}

// openArchive opens an archive of either format. Newer dockers write both
// into one; then docker's own counts, which names fewer files.
func openArchive(ctx context.Context, file string) (*Image, error) {
	a, err := indexArchive(ctx, file)
	if err != nil {
		return nil, err
	}
	if _, ok := a.members["manifest.json"]; ok {
		return openDockerSave(a)
	}
	if _, ok := a.members["index.json"]; !ok {
		return nil, fmt.Errorf("%s holds neither manifest.json nor index.json: want what 'docker save' writes, or an OCI image layout", file)
	}
	return openLayout(a)
}

// openDockerSave opens the one image of an archive from "docker save".
func openDockerSave(src source) (*Image, error) {
	raw, err := readDocument(src, "manifest.json")
	if err != nil {
		return nil, err
	}
	var images tarball.Manifest
	if err := json.Unmarshal(raw, &images); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	if len(images) != 1 {
		return nil, fmt.Errorf("the archive holds %d images: save exactly one", len(images))
	}
	config, err := readDocument(src, images[0].Config)
	if err != nil {
		return nil, err
	}
	if n := len(images[0].Layers); n > maxLayers {
		return nil, tooManyLayers(n)
	}
	var layers []layer
	for _, file := range images[0].Layers {
		l, err := dockerLayer(src, file)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return newImage(src, config, layers)
}

func tooManyLayers(n int) error {
	return fmt.Errorf("%w: %d layers, more than %d", ErrHostile, n, maxLayers)
}

// dockerLayer describes a layer of "docker save", whose manifest tells nothing
// but the file's name.
func dockerLayer(src source, file string) (layer, error) {
	r, size, err := src.open(file)
	if err != nil {
		return layer{}, err
	}
	return layer{file: file, size: size}, r.Close()
}

// openLayout opens the image for this machine in an OCI image layout.
func openLayout(src source) (*Image, error) {
	raw, err := readDocument(src, "index.json")
	if err != nil {
		return nil, fmt.Errorf("no OCI image layout: %w", err)
	}
	f := finder{source: src, seen: make(map[v1.Hash]bool)}
	if err := f.index(raw, 0); err != nil {
		return nil, err
	}
	switch len(f.images) {
	case 0:
		return nil, fmt.Errorf("%w: it is for %s", ErrPlatform, strings.Join(f.others, ", "))
	case 1:
		return f.images[0], nil
	}
	return nil, fmt.Errorf("the layout holds %d images for linux/%s: keep exactly one", len(f.images), runtime.GOARCH)
}

// A finder collects the images of a layout that run here.
type finder struct {
	source source
	seen   map[v1.Hash]bool // one image may have several names, and indexes may share what they list
	images []*Image
	others []string // platforms that do not run here
}

func (f *finder) index(raw []byte, depth int) error {
	if depth == maxNesting {
		return fmt.Errorf("indexes are nested more than %d deep", maxNesting)
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	for _, d := range index.Manifests {
		if err := f.descriptor(d, depth); err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) descriptor(d v1.Descriptor, depth int) error {
	if p := d.Platform; p != nil && checkPlatform(p.OS, p.Architecture) != nil {
		f.other(p.OS + "/" + p.Architecture)
		return nil
	}
	if f.seen[d.Digest] {
		return nil
	}
	f.seen[d.Digest] = true
	switch {
	case d.MediaType.IsIndex():
		raw, err := readBlob(f.source, d)
		if err != nil {
			return err
		}
		return f.index(raw, depth+1)
	case d.MediaType.IsImage():
		return f.image(d)
	}
	return nil // signatures, attestations and the like
}

// other notes a platform that does not run here. Builders mark what is no
// image at all as "unknown".
func (f *finder) other(platform string) {
	if platform != "unknown/unknown" && !slices.Contains(f.others, platform) {
		f.others = append(f.others, platform)
	}
}

func (f *finder) image(d v1.Descriptor) error {
	raw, err := readBlob(f.source, d)
	if err != nil {
		return err
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	config, err := readBlob(f.source, m.Config)
	if err != nil {
		return err
	}
	if len(m.Layers) > maxLayers {
		return tooManyLayers(len(m.Layers))
	}
	var layers []layer
	for _, l := range m.Layers {
		if !l.MediaType.IsDistributable() {
			return fmt.Errorf("layer %s is not in the image but at another place (%s)", l.Digest, l.MediaType)
		}
		file, err := blobPath(l.Digest)
		if err != nil {
			return err
		}
		layers = append(layers, layer{file: file, size: l.Size, digest: l.Digest})
	}
	i, err := newImage(f.source, config, layers)
	switch {
	case errors.Is(err, ErrPlatform) && d.Platform == nil:
		f.other(platformOf(config))
	case err != nil:
		return err
	default:
		f.images = append(f.images, i)
	}
	return nil
}

// platformOf names the platform of a configuration that newImage could parse.
func platformOf(config []byte) string {
	var p v1.Platform
	_ = json.Unmarshal(config, &p) // newImage has parsed the same bytes
	return p.OS + "/" + p.Architecture
}

// blobPath is where a layout keeps the content of a digest.
func blobPath(digest v1.Hash) (string, error) {
	// A digest from a document was parsed, except where it was left out.
	if digest.Algorithm != "sha256" || len(digest.Hex) != 64 {
		return "", fmt.Errorf("digest %q: want sha256", digest.String())
	}
	return path.Join("blobs", digest.Algorithm, digest.Hex), nil
}

// readBlob reads a document and verifies its digest.
func readBlob(src source, d v1.Descriptor) ([]byte, error) {
	file, err := blobPath(d.Digest)
	if err != nil {
		return nil, err
	}
	b, err := readDocument(src, file)
	if err != nil {
		return nil, err
	}
	got, _, err := v1.SHA256(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if got != d.Digest {
		return nil, fmt.Errorf("%s: %w: %s", file, ErrDigest, got)
	}
	return b, nil
}
