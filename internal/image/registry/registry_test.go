package registry_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/registry"
	"github.com/tare-bench/tare/internal/image/registry/registrytest"
)

const repository = "tare-run/engine"

// library has a stand-in for the agent.
func library(t *testing.T) *image.Library {
	t.Helper()
	return image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program")))
}

// clock begins with the test.
func clock() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// offer serves a new content.
func offer(t *testing.T, o registry.Options) (*registry.Offer, *registry.Content, *registry.Registry) {
	t.Helper()
	c := registrytest.Content(t, registrytest.Prepared(t, library(t)))
	r := registrytest.Listen(t, o)
	return r.Offer(repository, c, clock()), c, r
}

// fetch pulls an image as a client of another maker does.
func fetch(t *testing.T, reference string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// What is served is a valid image with the digest that was said, the files of the
// one it was made from, and one more in each layer.
func TestPull(t *testing.T) {
	o, c, _ := offer(t, registry.Options{})
	img := fetch(t, o.Reference())
	if err := validate.Image(img); err != nil {
		t.Fatal(err)
	}
	if digest, err := img.ConfigName(); err != nil || digest.String() != c.Digest || !c.Is(digest.String()) {
		t.Errorf("configuration %v, %v; want %s", digest, err, c.Digest)
	}
	if digest, err := img.Digest(); err != nil || !c.Is(digest.String()) {
		t.Errorf("manifest %v, %v; not the content's", digest, err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 3 {
		t.Fatalf("%d layers, %v; want the agent's and two more", len(layers), err)
	}
	for i, l := range layers {
		files := filesOf(t, l)
		if salt := files[fmt.Sprintf(".tare-salt-%d", i)]; len(salt) < 16 {
			t.Errorf("layer %d has the salt %q", i, salt)
		}
		if i == 0 && string(files["tare-agent"]) != "not a program" || i > 0 && len(files) != 4 {
			t.Errorf("layer %d has %d files", i, len(files))
		}
	}
	got := o.Withdraw()
	if got.Missing != 0 || got.Bytes < c.Bytes || got.Requests < 5 || got.First <= 0 || got.Last < got.First {
		t.Errorf("traffic %+v, want all of %d bytes", got, c.Bytes)
	}
}

func filesOf(t *testing.T, l v1.Layer) map[string][]byte {
	t.Helper()
	r, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // only read from
	files := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if files[h.Name], err = io.ReadAll(archive); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// No layer of a content is in another one, and a prepared image that is kept once more in
// the same place is the same.
func TestContents(t *testing.T) {
	lib, dir := library(t), t.TempDir()
	img, err := lib.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	r := registrytest.Listen(t, registry.Options{})
	seen, files := map[string]bool{}, map[string]string{}
	for range 2 {
		prepared, err := registry.Prepare(t.Context(), dir, img,
			registry.Padding{Layers: 1, Size: 10_000, Files: 3, Compressible: 1})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			o := r.Offer(repository, registrytest.Content(t, prepared), clock())
			layers, err := fetch(t, o.Reference()).Layers()
			if err != nil || len(layers) != 2 {
				t.Fatalf("%d layers, %v", len(layers), err)
			}
			for _, l := range layers {
				digest, err1 := l.Digest()
				id, err2 := l.DiffID()
				if err1 != nil || err2 != nil || seen[digest.String()] || seen[id.String()] {
					t.Errorf("layer %v of %v was there before (%v, %v)", digest, id, err1, err2)
				}
				seen[digest.String()], seen[id.String()] = true, true
			}
		}
		now := sums(t, dir)
		if len(files) > 0 {
			if diff := cmp.Diff(files, now); diff != "" {
				t.Errorf("kept once more, files differ:\n%s", diff)
			}
		}
		files = now
	}
}

// The same image and the same filler give the same bytes everywhere.
func TestReproducible(t *testing.T) {
	var all []map[string]string
	for range 2 {
		dir := t.TempDir()
		img, err := library(t).Resolve(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := registry.Prepare(t.Context(), dir, img,
			registry.Padding{Layers: 2, Size: 5_000, Files: 2, Compressible: 0.5}); err != nil {
			t.Fatal(err)
		}
		all = append(all, sums(t, dir))
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" || len(all[0]) != 6 {
		t.Errorf("%d files, want 6; they differ:\n%s", len(all[0]), diff)
	}
}

func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		all[e.Name()] = hex.EncodeToString(sum[:])
	}
	return all
}

// Filler compresses by as much as was asked for, within a few percent.
func TestCompressible(t *testing.T) {
	img, err := library(t).Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20
	for _, share := range []float64{0, 0.5, 1} {
		prepared, err := registry.Prepare(t.Context(), t.TempDir(), img,
			registry.Padding{Layers: 1, Size: size, Files: 4, Compressible: share})
		if err != nil {
			t.Fatal(err)
		}
		c := registrytest.Content(t, prepared)
		if got := float64(c.Bytes) / size; got < 1-share-0.05 || got > 1-share+0.05 {
			t.Errorf("of %d bytes %.3f remain, want about %.3f", size, got, 1-share)
		}
	}
}

func TestRequests(t *testing.T) {
	o, _, r := offer(t, registry.Options{})
	img := fetch(t, o.Reference())
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, _ := layers[1].Digest()
	size, _ := layers[1].Size()
	blob := repository + "/blobs/" + digest.String()
	whole, _ := ask(t, r, http.MethodGet, blob, "")
	if int64(len(whole)) != size {
		t.Fatalf("the blob has %d bytes, want %d", len(whole), size)
	}
	_, tag, _ := strings.Cut(strings.TrimPrefix(o.Reference(), r.Address()+"/"+repository), ":")
	for name, test := range map[string]struct {
		method, path, span string
		status             int
		from, to           int64 // of the blob; nothing for other bodies
	}{
		"ping":             {http.MethodGet, "", "", 200, 0, 0},
		"manifest":         {http.MethodHead, repository + "/manifests/" + tag, "", 200, 0, 0},
		"head":             {http.MethodHead, blob, "", 200, 0, 0},
		"begin":            {http.MethodGet, blob, "bytes=0-9", 206, 0, 10},
		"middle":           {http.MethodGet, blob, "bytes=100-", 206, 100, size},
		"over the seam":    {http.MethodGet, blob, fmt.Sprintf("bytes=%d-%d", size-300, size-2), 206, size - 300, size - 1},
		"the end":          {http.MethodGet, blob, fmt.Sprintf("bytes=%d-", size-1), 206, size - 1, size},
		"beyond the end":   {http.MethodGet, blob, fmt.Sprintf("bytes=%d-%d", size-5, size+100), 206, size - 5, size},
		"after the end":    {http.MethodGet, blob, fmt.Sprintf("bytes=%d-", size), 416, 0, 0},
		"several":          {http.MethodGet, blob, "bytes=0-1,5-6", 200, 0, size},
		"suffix":           {http.MethodGet, blob, "bytes=-5", 200, 0, size},
		"backwards":        {http.MethodGet, blob, "bytes=5-1", 200, 0, size},
		"no such blob":     {http.MethodGet, repository + "/blobs/sha256:00", "", 404, 0, 0},
		"no such tag":      {http.MethodGet, repository + "/manifests/latest", "", 404, 0, 0},
		"no such name":     {http.MethodGet, "tare-run/other/manifests/" + tag, "", 404, 0, 0},
		"file outside":     {http.MethodGet, repository + "/blobs/../../../../etc/passwd", "", 404, 0, 0},
		"nonsense":         {http.MethodGet, "x", "", 404, 0, 0},
		"push":             {http.MethodPut, repository + "/manifests/evil", "", 405, 0, 0},
		"upload":           {http.MethodPost, repository + "/blobs/uploads/", "", 405, 0, 0},
		"delete":           {http.MethodDelete, blob, "", 405, 0, 0},
		"another protocol": {"BREW", "", "", 405, 0, 0},
	} {
		body, status := ask(t, r, test.method, test.path, test.span)
		if status != test.status || test.to > 0 && !bytes.Equal(body, whole[test.from:test.to]) {
			t.Errorf("%s: status %d with %d bytes, want %d and bytes %d to %d",
				name, status, len(body), test.status, test.from, test.to)
		}
	}
	o.Withdraw()
	if _, status := ask(t, r, http.MethodGet, blob, ""); status != 404 {
		t.Errorf("status %d after the offer was withdrawn, want 404", status)
	}
}

func ask(t *testing.T, r *registry.Registry, method, path, span string) (body []byte, status int) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.Address()+"/v2/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if span != "" {
		q.Header.Set("Range", span)
	}
	w, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Body.Close() }() // only read from
	if body, err = io.ReadAll(w.Body); err != nil {
		t.Fatal(err)
	}
	return body, w.StatusCode
}

// What nobody has fetched is told.
func TestMissing(t *testing.T) {
	o, c, _ := offer(t, registry.Options{})
	img := fetch(t, o.Reference())
	if _, err := img.RawConfigFile(); err != nil {
		t.Fatal(err)
	}
	raw, _ := img.RawConfigFile()
	if got := o.Withdraw(); got.Missing != c.Bytes-int64(len(raw)) {
		t.Errorf("missing %d of %d bytes, want all but %d of the configuration", got.Missing, c.Bytes, len(raw))
	}
}

// With a bandwidth and a latency nothing is faster than these allow.
func TestPace(t *testing.T) {
	for name, o := range map[string]registry.Options{
		"in all":         {Bandwidth: 1 << 20},
		"per connection": {PerConnection: 1 << 20},
		"latency":        {Latency: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			offer, c, _ := offer(t, o)
			began := time.Now()
			if err := validate.Image(fetch(t, offer.Reference())); err != nil {
				t.Fatal(err)
			}
			took, traffic := time.Since(began), offer.Withdraw()
			least := time.Duration(float64(c.Bytes) / (1 << 20) * float64(time.Second))
			if o.PerConnection > 0 {
				least = 0 // several connections share the bytes
			}
			if o.Latency > 0 {
				least = 2 * o.Latency // one layer after the manifest, at least
			}
			if took < least || traffic.Missing > 0 {
				t.Errorf("%d bytes in %v, %d missing; want at least %v", c.Bytes, took, traffic.Missing, least)
			}
		})
	}
}

func TestKeepErrors(t *testing.T) {
	img, err := library(t).Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Prepare(t.Context(), file, img, registry.Padding{}); err == nil {
		t.Error("Keep works where there is no directory")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := registry.Prepare(ctx, dir, img,
		registry.Padding{Layers: 1, Size: 1 << 30, Files: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("Keep = %v, want context.Canceled", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func BenchmarkServe(b *testing.B) {
	img, err := image.NewLibrary(b.TempDir(), image.WithAgent([]byte("x"))).Resolve(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	const size = 64 << 20
	prepared, err := registry.Prepare(b.Context(), b.TempDir(), img, registry.Padding{Layers: 1, Size: size, Files: 1})
	if err != nil {
		b.Fatal(err)
	}
	r := registrytest.Listen(b, registry.Options{})
	b.SetBytes(size)
	for b.Loop() {
		o := r.Offer(repository, registrytest.Content(b, prepared), clock())
		ref, err := name.ParseReference(o.Reference())
		if err != nil {
			b.Fatal(err)
		}
		served, err := remote.Image(ref)
		if err != nil {
			b.Fatal(err)
		}
		layers, err := served.Layers()
		if err != nil {
			b.Fatal(err)
		}
		body, err := layers[1].Compressed()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			b.Fatal(err)
		}
	}
}
