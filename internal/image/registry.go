package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// registryScheme begins a reference to an image in a registry.
const registryScheme = "docker://"

// Pinned is a reference by which a registry returns exactly this image again,
// "docker://REPOSITORY@sha256:…"; empty if the image is not from a registry.
func (i *Image) Pinned() string { return i.pinned }

// openRegistry fetches an image from a registry. Its layers are then in files below the library's
// directory, with verified digests.
func (l *Library) openRegistry(ctx context.Context, ref string) (*Image, error) {
	named, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("use docker://REPOSITORY:TAG or docker://REPOSITORY@DIGEST: %w", err)
	}
	r := &registry{
		repo: named.Context(), dir: filepath.Join(l.dir, "registry"), retry: l.retry,
		documents: make(map[v1.Hash][]byte),
	}
	i, err := r.open(ctx, named, l.limits.Bytes)
	if err != nil {
		return nil, r.withAdvice(err)
	}
	return i, nil
}

// A registry is one repository of a registry, to fetch one image from.
type registry struct {
	repo   name.Repository
	dir    string // for layers, as in an OCI image layout
	retry  retryPolicy
	client *remote.Puller

	documents map[v1.Hash][]byte // read and verified so far
}

// connect makes the client; done closes its connections. Retries are up to retryPolicy.retry, which
// also covers reading the body.
func (r *registry) connect(ctx context.Context) (done func(), err error) {
	who, err := credentials(ctx, r.repo, r.retry.idle)
	if err != nil {
		return nil, err
	}
	base := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            newGuard(r.repo, r.retry.idle/3).dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    r.retry.idle / 3,
		IdleConnTimeout:        r.retry.idle,
		MaxResponseHeaderBytes: 1 << 20,
	}
	r.client, err = remote.NewPuller(
		remote.WithAuth(who), remote.WithUserAgent("tare"), remote.WithTransport(bounded{base, r.retry.idle}),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), remote.WithRetryStatusCodes(),
	)
	return base.CloseIdleConnections, err
}

func (r *registry) open(ctx context.Context, ref name.Reference, most int64) (*Image, error) {
	done, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer done()

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

// resolve asks what a reference means now. Everything else is then requested by digest, so that a
// tag that moves meanwhile cannot mix two images.
func (r *registry) resolve(ctx context.Context, ref name.Reference) (v1.Descriptor, error) {
	var d v1.Descriptor
	raw, kind, err := r.manifest(ctx, ref)
	if err != nil {
		return d, err
	}
	d.Digest = digestOf(raw)
	d.MediaType, err = manifestType(raw, string(kind))
	return d, err
}

// document returns a manifest, an index or a configuration.
func (r *registry) document(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	if raw, ok := r.documents[d.Digest]; ok {
		return raw, nil
	}
	// The digest becomes part of an address, so it must be well formed.
	if _, err := blobPath(d.Digest); err != nil {
		return nil, err
	}
	if d.MediaType.IsIndex() || d.MediaType.IsImage() {
		raw, _, err := r.manifest(ctx, r.repo.Digest(d.Digest.String()))
		return raw, err
	}
	var b bytes.Buffer
	err := r.retry.retry(ctx, 0, func(ctx context.Context) error {
		b.Reset()
		return r.blob(ctx, &b, d.Digest, maxDocument)
	})
	if err != nil {
		return nil, err
	}
	r.documents[d.Digest] = b.Bytes()
	return b.Bytes(), nil
}

// manifest returns a manifest or an index, and its type according to the registry.
func (r *registry) manifest(ctx context.Context, ref name.Reference) (raw []byte, kind types.MediaType, err error) {
	err = r.retry.retry(ctx, 0, func(ctx context.Context) error {
		d, err := r.client.Get(ctx, ref)
		if err == nil {
			raw, kind = d.Manifest, d.MediaType
			r.documents[digestOf(raw)] = raw
		}
		return err
	})
	return raw, kind, err
}

// blob writes the content of a digest, at most most bytes.
func (r *registry) blob(ctx context.Context, w io.Writer, digest v1.Hash, most int64) error {
	l, err := r.client.Layer(ctx, r.repo.Digest(digest.String()))
	if err != nil {
		return err
	}
	body, err := l.Compressed()
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // only read from

	n, err := io.Copy(w, io.LimitReader(body, most+1))
	if err == nil && n > most {
		return tooLong(digest.String(), most)
	}
	return err
}

func digestOf(b []byte) v1.Hash {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// manifestType returns the type of a document: the type that the registry states, or otherwise the
// type that its content shows, because some registries only serve files.
func manifestType(raw []byte, said string) (types.MediaType, error) {
	var d struct {
		MediaType types.MediaType `json:"mediaType"`
		Manifests json.RawMessage `json:"manifests"`
		Config    json.RawMessage `json:"config"`
		History   json.RawMessage `json:"history"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return "", fmt.Errorf("the registry's answer is not a manifest (its type is %.100q): %w", said, err)
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
		return "", errors.New("the image has the obsolete manifest schema 1: push it again with a current tool")
	case d.Manifests != nil:
		return types.OCIImageIndex, nil
	case d.Config != nil:
		return types.OCIManifestSchema1, nil
	}
	return "", fmt.Errorf("the registry's answer is not an image's manifest (its type is %.100q)", said)
}

// layers fetches the layers of an image that are not stored yet.
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
		err := r.retry.retry(ctx, l.size, func(ctx context.Context) error { return r.fetch(ctx, l, file) })
		if err != nil {
			return fmt.Errorf("layer %s: %w", l.digest, err)
		}
	}
	return nil
}

// fetch writes a layer to a file. The file exists only if it is complete and verified.
func (r *registry) fetch(ctx context.Context, l layer, file string) error {
	return whole(filepath.Dir(file), 0o755, func(f *os.File) (string, error) {
		return filepath.Base(file), r.blob(ctx, f, l.digest, l.size)
	})
}
