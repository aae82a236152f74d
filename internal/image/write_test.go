package image_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/image"
)

// packed packs a shell.
func packed(t *testing.T) *image.Image {
	t.Helper()
	img, err := image.NewLibrary(t.TempDir()).Pack(t.Context(), "sh")
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestWrite reads back what is written, whole, and wants the same bytes of the same
// image.
func TestWrite(t *testing.T) {
	img, again := packed(t), packed(t)
	var one, two bytes.Buffer
	for out, i := range map[*bytes.Buffer]*image.Image{&one: img, &two: again} {
		if err := i.WriteDockerArchive(out, "tare.local/sh:1"); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("the same program gives two archives")
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, one.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got := resolve(t, image.NewLibrary(t.TempDir()), "tar:"+file)
	if got.Digest() != img.Digest() {
		t.Errorf("digest %s, want %s", got.Digest(), img.Digest())
	}
	if _, err := got.Rootfs(t.Context()); err != nil {
		t.Error(err)
	}
	if img.Stored() != again.Stored() || img.Stored() <= 0 || int64(one.Len()) < img.Stored() {
		t.Errorf("%d and %d bytes stored in an archive of %d", img.Stored(), again.Stored(), one.Len())
	}
}

func TestFullName(t *testing.T) {
	for tag, want := range map[string]string{
		"nginx":                "docker.io/library/nginx:latest",
		"me/nginx:1":           "docker.io/me/nginx:1",
		"tare.local/nginx":     "tare.local/nginx:latest",
		"localhost:5000/x:y":   "localhost:5000/x:y",
		"docker.io/library/a":  "docker.io/library/a:latest",
		"":                     "",
		"UPPER":                "",
		"a b":                  "",
		"a:b:c":                "",
		"x@sha256:0123456789a": "",
	} {
		got, err := image.FullName(tag)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != "") {
			t.Errorf("FullName(%q): %v (-want +got):\n%s", tag, err, diff)
		}
	}
}
