package image_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// An archive may be compressed as a whole. It is the same image, unless it is broken,
// compressed by other means or as large as a bomb. Of what cannot be unpacked nothing
// stays.
func TestCompressedArchives(t *testing.T) {
	ref := saved(t, imagetest.Archive(t, file("a", "text")))
	plain, err := os.ReadFile(strings.TrimPrefix(ref, "tar:"))
	if err != nil {
		t.Fatal(err)
	}
	want := resolve(t, image.NewLibrary(t.TempDir()), ref).Digest()
	for _, test := range []struct {
		name   string
		stored []byte
		says   string
		kind   error
		stay   int // files
	}{
		{"gzip", gzipped(t, plain), "", nil, 1},
		{"zstd", zipped(t, plain), "", nil, 1},
		{"xz", append([]byte("\xfd7zXZ\x00"), plain...), "image.tar.gz: compressed with xz, which tare cannot read: " +
			"decompress it first, or use gzip or zstd", nil, 0},
		{"bzip2", []byte("BZh9"), "compressed with bzip2, which", nil, 0},
		{"gzip, cut", gzipped(t, plain)[:60], "image.tar.gz is truncated: make or copy it again", nil, 0},
		{"zstd, cut", zipped(t, plain)[:60], "image.tar.gz is truncated", nil, 0},
		{"gzip of what was cut", gzipped(t, plain[:600]), "image.tar.gz is truncated", nil, 1},
		{"gzip of nothing", gzipped(t, nil), "neither manifest.json nor index.json", nil, 1},
		{"gzip of text", gzipped(t, bytes.Repeat([]byte("text"), 512)), "not a tar archive", nil, 1},
		{"bomb", gzipped(t, make([]byte, 3_000_000)), "larger than 2000000 bytes", image.ErrHostile, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			name, dir := filepath.Join(t.TempDir(), "image.tar.gz"), t.TempDir()
			if err := os.WriteFile(name, test.stored, 0o600); err != nil {
				t.Fatal(err)
			}
			lib := image.NewLibrary(dir, image.WithLimits(image.Limits{Bytes: 1_000_000}))
			img, err := lib.Resolve(t.Context(), "tar:"+name)
			if stay := expanded(t, dir); len(stay) != test.stay {
				t.Errorf("%q stay, want %d", stay, test.stay)
			}
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), dir) {
					t.Errorf("error %v, want one that says %q and names no other file", err, test.says)
				}
				if test.kind != nil && !errors.Is(err, test.kind) {
					t.Errorf("error %v, want one that wraps %v", err, test.kind)
				}
				return
			}
			if err != nil || img.Digest() != want {
				t.Fatalf("%v, error %v, want %s", img, err, want)
			}
			if err := img.WriteDockerArchive(io.Discard, ""); err != nil {
				t.Error(err)
			}
		})
	}
}

// expanded lists what was unpacked of archives below a library's directory.
func expanded(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "archives", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// An archive is unpacked once, whoever asks; one that took its place is another, and
// who reads the first goes on with that.
func TestCompressedArchiveOnce(t *testing.T) {
	name, dir := filepath.Join(t.TempDir(), "image.tar.gz"), t.TempDir()
	place := func(content string) *image.Image {
		t.Helper()
		plain, err := os.ReadFile(strings.TrimPrefix(saved(t, imagetest.Archive(t, file("a", content))), "tar:"))
		if err == nil {
			err = os.WriteFile(name, gzipped(t, plain), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return resolve(t, image.NewLibrary(dir), "tar:"+name)
	}
	first := place("text")
	before := stat(t, expanded(t, dir)...)
	resolve(t, image.NewLibrary(dir), "tar:"+name)
	if after := stat(t, expanded(t, dir)...); len(before) != 1 || len(after) != 1 || !os.SameFile(before[0], after[0]) {
		t.Errorf("unpacked again: %v, then %v", before, after)
	}
	second := place(strings.Repeat("other text", 1000))
	if first.Digest() == second.Digest() || len(expanded(t, dir)) != 2 {
		t.Errorf("%s and then %s, in %q", first.Digest(), second.Digest(), expanded(t, dir))
	}
	for _, img := range []*image.Image{first, second} {
		if err := img.WriteDockerArchive(io.Discard, ""); err != nil {
			t.Error(err)
		}
	}
}

func stat(t *testing.T, files ...string) (all []os.FileInfo) {
	t.Helper()
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info)
	}
	return all
}
