package image_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// archiveOf writes bytes as an archive and returns a reference.
func archiveOf(tb testing.TB, b []byte) string {
	tb.Helper()
	name := filepath.Join(tb.TempDir(), "a.tar")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		tb.Fatal(err)
	}
	return "tar:" + name
}

// plainArchive is what "docker save" writes of an image of one layer.
func plainArchive(tb testing.TB, extra ...entry) []byte {
	tb.Helper()
	l := imagetest.Archive(tb, file("a", "text"))
	return imagetest.Archive(tb, append([]entry{
		file("manifest.json", `[{"Config":"c","Layers":["l"]}]`),
		file("c", string(marshal(tb, config(l)))), file("l", string(l)),
	}, extra...)...)
}

// An archive that is broken or odd is refused, or means what it says.
func TestOddArchives(t *testing.T) {
	good := plainArchive(t)
	at := bytes.Index(good, []byte(`[{"Config"`)) - 512 // the header of manifest.json
	for _, test := range []struct {
		name string
		b    []byte
		says string // part of the error; empty if it is read
	}{
		{"as it should be", good, ""},
		{"twice the same name", plainArchive(t, file("l", "another")), "does not match its digest"},
		{"twice the same", append(bytes.TrimRight(bytes.Clone(good), "\x00"), plainArchive(t)...), "not a tar archive"},
		{"cut in a header", good[:1100], "is truncated: make or copy it again"},
		{"cut in a file", good[:len(good)-3000], "is truncated"},
		{"less than a header", good[:100], "not a tar archive"},
		{"a checksum of lies", append([]byte("x"), good[1:]...), "not a tar archive"},
		{"a size of lies", append(bytes.Clone(good[:at]), resize(bytes.Clone(good[at:]), octal(claimed))...), "is truncated"},
		{"a negative size", append(bytes.Clone(good[:at]), resize(bytes.Clone(good[at:]), strings.Repeat("\xff", 12))...), "not a tar archive"},
		{"a link to itself", plainArchive(t, hardlink("l", "l")), "file does not exist"},
		{"links in a circle", plainArchive(t, hardlink("l", "m"), hardlink("m", "n"), symlink("n", "l")), "file does not exist"},
		{"a link out of it", plainArchive(t, symlink("l", "../../../../etc/passwd")), "file does not exist"},
		{"a directory", plainArchive(t, dir("l")), ""}, // is no file, and hides none
		{"with bzip2", append([]byte("BZh91AY"), good...), "compressed with bzip2"},
		{"with xz", append([]byte("\xfd7zXZ\x00"), good...), "compressed with xz"},
		{"with zstd", append([]byte("\x28\xb5\x2f\xfd"), good...), "(zstd): reserved bit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := rootfs(t, image.NewLibrary(t.TempDir()), archiveOf(t, test.b))
			if (err == nil) != (test.says == "") || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("error %v, want one that says %q", err, test.says)
			}
		})
	}
}

// Indexes within indexes end somewhere.
func TestNestedIndexes(t *testing.T) {
	files := map[string][]byte{}
	index := marshal(t, v1.IndexManifest{SchemaVersion: 2})
	for range 6 {
		d := v1.Descriptor{MediaType: types.OCIImageIndex, Digest: digest(index), Size: int64(len(index))}
		files["blobs/sha256/"+digest(index).Hex] = index
		index = marshal(t, v1.IndexManifest{SchemaVersion: 2, Manifests: []v1.Descriptor{d}})
	}
	files["index.json"] = index
	if _, err := image.NewLibrary(t.TempDir()).Resolve(t.Context(), writeDir(t, files)); err == nil ||
		!strings.Contains(err.Error(), "nested more than") {
		t.Errorf("error %v, want one about nesting", err)
	}
}

// Layers that are compressed with something else, or want more memory than
// there is, are refused.
func TestOddCompressions(t *testing.T) {
	plain := imagetest.Archive(t, file("a", "text"))
	window := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xb8} // a frame whose window is 8 GiB
	for _, test := range []struct {
		name   string
		stored []byte
		says   string
	}{
		{"zstd", zipped(t, plain), ""},
		{"gzip, in two parts", append(gzipped(t, plain[:512]), gzipped(t, plain[512:])...), ""},
		{"xz", append([]byte("\xfd7zXZ\x00"), plain...), "compressed with xz"},
		{"bzip2", append([]byte("BZh9"), plain...), "compressed with bzip2"},
		{"gzip, cut", gzipped(t, plain)[:60], "unexpected EOF"},
		{"gzip, and more", append(gzipped(t, plain), "more"...), "gzip"},
		{"zstd, cut", zipped(t, plain)[:20], ""},
		{"zstd, huge window", append(window, plain...), "window"},
		{"nothing", nil, "digest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ref := writeTar(t, map[string][]byte{
				"c": marshal(t, config(plain)), "l": test.stored, "manifest.json": []byte(`[{"Config":"c","Layers":["l"]}]`),
			})
			_, err := rootfs(t, image.NewLibrary(t.TempDir()), ref)
			good := test.says == "" && test.name != "zstd, cut"
			if (err == nil) != good || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("error %v, want one that says %q", err, test.says)
			}
		})
	}
}

func zipped(tb testing.TB, b []byte) []byte {
	tb.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

// A bomb in zstd is stopped when it is unpacked, and when an engine is to get it
// unpacked.
func TestZstdBomb(t *testing.T) {
	content := imagetest.Archive(t, file("zeros", strings.Repeat("\x00", 10_000_000)))
	ref := writeTar(t, map[string][]byte{
		"c": marshal(t, config(content)), "l": zipped(t, content), "manifest.json": []byte(`[{"Config":"c","Layers":["l"]}]`),
	})
	lib := image.NewLibrary(t.TempDir(), image.WithLimits(image.Limits{Bytes: 1_000_000}))
	if _, err := rootfs(t, lib, ref); !errors.Is(err, image.ErrHostile) {
		t.Errorf("unpacked: %v, want an error that wraps ErrHostile", err)
	}
	if err := resolve(t, lib, ref).WriteDockerArchive(io.Discard, ""); !errors.Is(err, image.ErrHostile) {
		t.Errorf("written: %v, want an error that wraps ErrHostile", err)
	}
}

// FuzzLayout reads documents of a layout that anybody may have written. The blob
// is named by its digest in the index, as {blob} says.
func FuzzLayout(f *testing.F) {
	list := func(kind types.MediaType) string {
		return `{"schemaVersion":2,"manifests":[{"mediaType":"` + string(kind) + `","digest":"{blob}","size":2}]}`
	}
	f.Add(list(types.OCIManifestSchema1),
		`{"schemaVersion":2,"config":{"digest":"{blob}"},"layers":[{"digest":"{blob}"}]}`)
	f.Add(list(types.OCIImageIndex), `{"schemaVersion":2,"manifests":[]}`)
	f.Add(list(types.DockerManifestList), list(types.DockerManifestList))
	f.Add("[]", "{}")
	f.Fuzz(func(t *testing.T, index, blob string) {
		d := digest([]byte(blob))
		ref := writeDir(t, map[string][]byte{
			"index.json":                      []byte(strings.ReplaceAll(index, "{blob}", d.String())),
			"blobs/sha256/" + d.Hex:           []byte(blob),
			"blobs/sha256/" + digest(nil).Hex: nil,
		})
		img, err := image.NewLibrary(t.TempDir(), image.WithLimits(image.Limits{Bytes: 1 << 20})).Resolve(t.Context(), ref)
		if err != nil {
			return
		}
		if _, err := img.ConfigFile(); err != nil {
			t.Errorf("an image was found, but %v", err)
		}
	})
}

// FuzzRegistry is asked for an image, and answers anything.
func FuzzRegistry(f *testing.F) {
	m, err := json.Marshal(v1.Manifest{SchemaVersion: 2, Config: v1.Descriptor{Digest: digest([]byte("{}")), Size: 2}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(200, manifestKind, "", string(m), "{}")
	f.Add(401, "text/plain", `Bearer realm="http://127.0.0.1/token",service="x"`, "who?", "")
	f.Add(307, "", "", "", "")
	f.Add(500, "application/json", "", `{"errors":[{"code":"UNKNOWN","message":"x"}]}`, "")
	f.Fuzz(func(t *testing.T, status int, kind, challenge, document, blob string) {
		if status < 200 || status > 599 {
			t.Skip("no status of an answer")
		}
		withoutCredentials(t)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", challenge)
			w.Header().Set("Location", "/v2/r/manifests/1")
			switch {
			case strings.Contains(r.URL.Path, "/blobs/"):
				reply(200, "", blob)(w, r)
			case strings.Contains(r.URL.Path, "/manifests/"):
				reply(status, kind, document)(w, r)
			default:
				reply(200, "", "")(w, r)
			}
		}))
		defer s.Close()
		lib := image.NewLibrary(t.TempDir(), image.WithPatience(time.Second, time.Microsecond),
			image.WithLimits(image.Limits{Bytes: 1 << 20}))
		if _, err := lib.Resolve(t.Context(), "docker://"+host(s)+"/r:1"); err != nil && len(err.Error()) > 5000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

// A layer, or a whole archive, that says it is hundreds of times as much as is stored is
// refused before it is written.
func TestCompressionBombs(t *testing.T) {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "zeros", Size: 3 << 30, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	raw := append(b.Bytes(), make([]byte, 1<<20)...)
	layer := imagetest.Archive(t, file("manifest.json", `[{"Config":"c","Layers":["l"]}]`),
		file("c", string(marshal(t, config(raw)))), file("l", string(gzipped(t, raw))))
	for name, archive := range map[string][]byte{
		"layer":   layer,
		"archive": gzipped(t, append(plainArchive(t), make([]byte, 260<<20)...)),
	} {
		dir := t.TempDir()
		_, err := rootfs(t, image.NewLibrary(dir), archiveOf(t, archive))
		if !errors.Is(err, image.ErrHostile) ||
			!strings.Contains(err.Error(), "200 times as much may be a compression bomb") {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
	}
}
