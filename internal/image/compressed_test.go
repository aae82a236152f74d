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
// compressed by other means or as large as a bomb; then nothing of it stays.
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
	}{
		{"gzip", gzipped(t, plain), "", nil},
		{"zstd", zipped(t, plain), "", nil},
		{"xz", append([]byte("\xfd7zXZ\x00"), plain...), "compressed with xz", nil},
		{"gzip, cut", gzipped(t, plain)[:60], "unexpected EOF", nil},
		{"gzip of nothing", gzipped(t, nil), "neither manifest.json nor index.json", nil},
		{"gzip of text", gzipped(t, bytes.Repeat([]byte("text"), 512)), "not a tar archive", nil},
		{"bomb", gzipped(t, make([]byte, 3_000_000)), "larger than 2000000 bytes", image.ErrHostile},
	} {
		t.Run(test.name, func(t *testing.T) {
			name, dir := filepath.Join(t.TempDir(), "image.tar.gz"), t.TempDir()
			if err := os.WriteFile(name, test.stored, 0o600); err != nil {
				t.Fatal(err)
			}
			lib := image.NewLibrary(dir, image.WithLimits(image.Limits{Bytes: 1_000_000}))
			img, err := lib.Resolve(t.Context(), "tar:"+name)
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
