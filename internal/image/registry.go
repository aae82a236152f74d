package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// registryScheme begins a reference to an image in a registry.
const registryScheme = "docker://"

// Pinned is a reference by which a registry gives exactly this image again,
// "docker://REPOSITORY@sha256:…"; empty for an image from elsewhere.
func (i *Image) Pinned() string { return i.pinned }

// openRegistry fetches the image that a reference of a registry means. Its
// layers are then in files below the library's directory, each of which is what
// its digest says.
func (l *Library) openRegistry(ctx context.Context, ref string) (*Image, error) {
	named, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("want docker://REPOSITORY:TAG or docker://REPOSITORY@DIGEST: %w", err)
	}
	r := &registry{
		repo: named.Context(), dir: filepath.Join(l.dir, "registry"), patience: l.patience,
		documents: make(map[v1.Hash][]byte),
	}
	defer r.hangUp()
	i, err := r.open(ctx, named, l.limits.Bytes)
	if err != nil {
		return nil, r.explain(err)
	}
	return i, nil
}

// A registry is one repository of a registry, from which one image is fetched.
type registry struct {
	repo     name.Repository
	dir      string // for layers, as in an OCI image layout
	patience patience
	line     *line // nil until somebody has asked

	documents map[v1.Hash][]byte // read so far, each of them verified
}

func (r *registry) open(ctx context.Context, ref name.Reference, most int64) (*Image, error) {
	top, err := r.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	f := finder{
		files: directory(r.dir), seen: make(map[v1.Hash]bool),
		read: func(d v1.Descriptor) ([]byte, error) { return r.document(ctx, d) },
	}
	if err := f.descriptor(top, 0); err != nil {
		return nil, err
	}
	i, err := f.only()
	if err != nil {
		return nil, err
	}
	if err := r.layers(ctx, i, most); err != nil {
		return nil, err
	}
	i.pinned = registryScheme + r.repo.Digest(top.Digest.String()).Name()
	return i, nil
}

// resolve asks what a reference means now. Everything else is then asked for by
// digest, so that a tag that moves meanwhile mixes nothing.
func (r *registry) resolve(ctx context.Context, ref name.Reference) (v1.Descriptor, error) {
	var d v1.Descriptor
	if digest, ok := ref.(name.Digest); ok {
		want, err := v1.NewHash(digest.DigestStr())
		if err != nil {
			return d, err
		}
		d.Digest = want
	}
	raw, kind, err := r.read(ctx, manifests, ref.Identifier(), d.Digest)
	if err != nil {
		return d, err
	}
	d.Digest = digestOf(raw)
	if d.MediaType, err = manifestType(raw, kind); err != nil {
		return d, err
	}
	r.documents[d.Digest] = raw
	return d, nil
}

// document returns a manifest, an index or a configuration.
func (r *registry) document(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	if raw, ok := r.documents[d.Digest]; ok {
		return raw, nil
	}
	// What is asked for becomes part of an address.
	if _, err := blobPath(d.Digest); err != nil {
		return nil, err
	}
	kind := blobs
	if d.MediaType.IsIndex() || d.MediaType.IsImage() {
		kind = manifests
	}
	raw, _, err := r.read(ctx, kind, d.Digest.String(), d.Digest)
	if err == nil {
		r.documents[d.Digest] = raw
	}
	return raw, err
}

// read returns a small document and what the registry says that it is. It is
// verified unless want is zero.
func (r *registry) read(ctx context.Context, kind, id string, want v1.Hash) (raw []byte, mediaType string, err error) {
	ctx, cancel := r.patience.within(ctx, 0)
	defer cancel()
	err = r.patience.retry(ctx, func() error {
		answer, err := r.get(ctx, kind, id)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }() // only read from
		mediaType = answer.Header.Get("Content-Type")
		raw, err = io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
		if err != nil {
			return fmt.Errorf("read %s: %w", id, err)
		}
		return checkDocument(raw, id, want)
	})
	return raw, mediaType, err
}

func checkDocument(raw []byte, id string, want v1.Hash) error {
	if len(raw) > maxDocument {
		return fmt.Errorf("%w: %s is longer than %d bytes", ErrHostile, id, maxDocument)
	}
	if got := digestOf(raw); want != (v1.Hash{}) && got != want {
		return fmt.Errorf("%w: %s instead of %s", ErrDigest, got, want)
	}
	return nil
}

func digestOf(b []byte) v1.Hash {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// manifestType says what a document is: by what the registry says, or else, as
// some registries are only files, by what it contains.
func manifestType(raw []byte, said string) (types.MediaType, error) {
	var d struct {
		MediaType types.MediaType `json:"mediaType"`
		Manifests json.RawMessage `json:"manifests"`
		Config    json.RawMessage `json:"config"`
		History   json.RawMessage `json:"history"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return "", fmt.Errorf("what the registry gives is no manifest (it calls it %.100q): %w", said, err)
	}
	said, _, _ = strings.Cut(said, ";")
	kind := types.MediaType(strings.TrimSpace(said))
	if !kind.IsIndex() && !kind.IsImage() {
		kind = d.MediaType
	}
	switch {
	case kind.IsIndex(), kind.IsImage():
		return kind, nil
	case types.MediaType(said).IsSchema1(), kind.IsSchema1(), d.History != nil:
		return "", errors.New("the image is in a format of 2015 (schema 1): push it again with a tool of today")
	case d.Manifests != nil:
		return types.OCIImageIndex, nil
	case d.Config != nil:
		return types.OCIManifestSchema1, nil
	}
	return "", fmt.Errorf("what the registry gives is no manifest of an image (it calls it %.100q)", said)
}

// layers fetches the layers of an image that are not there yet.
func (r *registry) layers(ctx context.Context, i *Image, most int64) error {
	var sum int64
	for _, l := range i.layers {
		if sum += l.size; l.size < 0 || sum < 0 || sum > most {
			return fmt.Errorf("%w: layers of more than %d bytes", ErrHostile, most)
		}
	}
	for _, l := range i.layers {
		file := filepath.Join(r.dir, l.file)
		if _, err := os.Lstat(file); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := r.fetchWithin(ctx, l, file); err != nil {
			return fmt.Errorf("layer %s: %w", l.digest, err)
		}
	}
	return nil
}

func (r *registry) fetchWithin(ctx context.Context, l layer, file string) error {
	ctx, cancel := r.patience.within(ctx, l.size)
	defer cancel()
	return r.patience.retry(ctx, func() error { return r.fetch(ctx, l, file) })
}

// fetch writes a layer to a file that is there whole and verified, or not at all.
func (r *registry) fetch(ctx context.Context, l layer, file string) (err error) {
	answer, err := r.get(ctx, blobs, l.digest.String())
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // only read from
	if n := answer.ContentLength; n >= 0 && n != l.size {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrDigest, n, l.size)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".fetch-")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), file)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	// One byte more than there may be: then the digest is another one.
	bounded := io.NopCloser(io.LimitReader(answer.Body, l.size+1))
	_, err = io.Copy(f, verified(bounded, l.digest, "blob"))
	return err
}
