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

// ErrPlatform means that an image is for another operating system or architecture.
var ErrPlatform = errors.New("no image for linux/" + runtime.GOARCH)

// maxNesting limits the depth of indexes within indexes. Real images have at most two.
const maxNesting = 4

// maxLayers limits the layers of an image. Engines allow 127.
const maxLayers = 1000

func checkPlatform(os, arch string) error {
	switch {
	case os == "linux" && arch == runtime.GOARCH:
		return nil
	case os == "" && arch == "":
		return fmt.Errorf("%w: the image does not name its platform", ErrPlatform)
	}
	return fmt.Errorf("%w: the image is for %s/%s", ErrPlatform, os, arch)
}

// openArchive opens an archive of either format. Newer versions of docker write both formats into
// one archive. Then docker's own counts, which has fewer files.
func (l *Library) openArchive(ctx context.Context, file string) (*Image, error) {
	plain, err := l.uncompressed(ctx, file)
	if err != nil {
		return nil, err
	}
	a, err := indexArchive(ctx, plain, file)
	if err != nil {
		return nil, err
	}
	if _, ok := a.members["manifest.json"]; ok {
		return openDockerSave(a)
	}
	if _, ok := a.members["index.json"]; !ok {
		return nil, fmt.Errorf("%s contains neither manifest.json nor index.json: use an archive from 'docker save' "+
			"or an OCI image layout", file)
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
		return nil, fmt.Errorf("the archive contains %d images: save exactly one", len(images))
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

// dockerLayer describes a layer of "docker save". That manifest has only the file's name.
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
		return nil, fmt.Errorf("not an OCI image layout, such as 'skopeo copy … oci:DIR' writes: %w", err)
	}
	f := finder{
		files: src, seen: make(map[v1.Hash]bool),
		read: func(d v1.Descriptor) ([]byte, error) { return readBlob(src, d) },
	}
	if err := f.index(raw, 0); err != nil {
		return nil, err
	}
	return f.only()
}

// A finder collects the images below an index that run here.
type finder struct {
	files  source                              // where the layers are or will be
	read   func(v1.Descriptor) ([]byte, error) // reads and verifies a document
	seen   map[v1.Hash]bool                    // an image may have several names, and indexes may share entries
	images []*Image
	plain  []*Image // those of the images for every CPU of the architecture
	others []string // platforms that do not run here
}

// only returns the one image that was found. An index may have further ones for newer CPUs. Then it
// is the plain one, which runs everywhere and which engines usually take.
func (f *finder) only() (*Image, error) {
	switch {
	case len(f.images) == 1:
		return f.images[0], nil
	case len(f.plain) == 1:
		return f.plain[0], nil
	case len(f.images) > 0:
		return nil, fmt.Errorf("it contains %d images for linux/%s: keep one, or choose one by its digest",
			len(f.images), runtime.GOARCH)
	case len(f.others) == 0:
		return nil, fmt.Errorf("%w, and none for another platform", ErrPlatform)
	}
	return nil, fmt.Errorf("%w: the image is for %s", ErrPlatform, strings.Join(f.others, ", "))
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
		raw, err := f.read(d)
		if err != nil {
			return err
		}
		return f.index(raw, depth+1)
	case d.MediaType.IsImage():
		return f.image(d)
	}
	return nil // a signature, an attestation or the like
}

// other notes a platform that does not run here. Builders mark entries that are not images as
// "unknown".
func (f *finder) other(platform string) {
	if platform != "unknown/unknown" && !slices.Contains(f.others, platform) {
		f.others = append(f.others, platform)
	}
}

// maxImages limits how many images for this machine are examined, because each is kept, with its
// configuration, until one is chosen.
const maxImages = 32

func (f *finder) image(d v1.Descriptor) error {
	if len(f.images) == maxImages {
		return fmt.Errorf("it contains more than %d images for linux/%s: keep one, or choose one by its digest",
			maxImages, runtime.GOARCH)
	}
	raw, err := f.read(d)
	if err != nil {
		return err
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	if kind := m.Config.MediaType; kind != "" && !kind.IsConfig() {
		return fmt.Errorf("%s is not an image that can run: it is of type %.100q", d.Digest, kind)
	}
	config, err := f.read(m.Config)
	if err != nil {
		return err
	}
	layers, err := layersOf(m)
	if err != nil {
		return err
	}
	i, err := newImage(f.files, config, layers)
	switch {
	case errors.Is(err, ErrPlatform) && d.Platform == nil:
		f.other(platformOf(config))
	case err != nil:
		return err
	default:
		f.found(i, d.Platform)
	}
	return nil
}

// found keeps an image that runs here. It is plain if it is not for newer CPUs only.
func (f *finder) found(i *Image, p *v1.Platform) {
	f.images = append(f.images, i)
	if p == nil || p.Variant == "" || p.Variant == "v1" || p.Architecture == "arm64" && p.Variant == "v8" {
		f.plain = append(f.plain, i)
	}
}

// layersOf are the layers that a manifest lists.
func layersOf(m *v1.Manifest) ([]layer, error) {
	if len(m.Layers) > maxLayers {
		return nil, tooManyLayers(len(m.Layers))
	}
	var layers []layer
	for _, l := range m.Layers {
		if !l.MediaType.IsDistributable() {
			return nil, fmt.Errorf("layer %s is not in the image: it is stored elsewhere (%s)", l.Digest, l.MediaType)
		}
		file, err := blobPath(l.Digest)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer{file: file, size: l.Size, digest: l.Digest})
	}
	return layers, nil
}

// platformOf names the platform of a configuration that newImage could parse.
func platformOf(config []byte) string {
	var p v1.Platform
	_ = json.Unmarshal(config, &p) // newImage has parsed the same bytes
	return p.OS + "/" + p.Architecture
}

// blobPath is the path of a digest's content in a layout.
func blobPath(digest v1.Hash) (string, error) {
	// Digests in documents are checked when they are parsed, except a missing one.
	if digest.Algorithm != "sha256" || len(digest.Hex) != 64 {
		return "", fmt.Errorf("digest %q: tare supports only sha256", digest.String())
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
