package image_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

func TestWithArgv(t *testing.T) {
	l := image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program")))
	img, err := l.Resolve(t.Context(), image.Agent)
	if err != nil {
		t.Fatal(err)
	}
	before := img.Digest()
	other, err := img.WithArgv("/x", "y")
	if err != nil {
		t.Fatal(err)
	}
	if argv, err := other.Argv(bench.Spec{}); err != nil || !slices.Equal(argv, []string{"/x", "y"}) {
		t.Errorf("Argv = %q, %v; want /x y", argv, err)
	}
	if other.Digest() == before || img.Digest() != before {
		t.Errorf("digests %s and %s, want two, and the first as it was, %s", img.Digest(), other.Digest(), before)
	}
	if !slices.Equal(other.Env(), img.Env()) || other.WorkingDir() != img.WorkingDir() {
		t.Errorf("environment %q in %s, want those of the first image", other.Env(), other.WorkingDir())
	}
	var archive bytes.Buffer
	if err := other.WriteDockerArchive(&archive, "tag:1"); err != nil {
		t.Error(err)
	}
}
