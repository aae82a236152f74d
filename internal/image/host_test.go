package image_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

func TestHostProgram(t *testing.T) {
	t.Setenv("PATH", "/bin")
	dir := t.TempDir()
	lib := image.NewLibrary(dir)
	img := resolve(t, lib, "host:sh")
	argv, err := img.Argv(bench.Spec{})
	if diff := cmp.Diff([]string{"/bin/sh"}, argv); diff != "" || err != nil {
		t.Errorf("%v argv (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		img.Env()); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if img.Packed() == nil || img.Packed().Program != "/bin/sh" || resolve(t, lib, image.Agent).Packed() != nil {
		t.Errorf("packed = %+v, want /bin/sh, and nothing for the agent", img.Packed())
	}
	root, err := img.Rootfs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shell, err := os.Stat(filepath.Join(root, "/bin/sh"))
	if tmp, tmpErr := os.Stat(filepath.Join(root, "tmp")); err != nil || tmpErr != nil || shell.Mode() != 0o755 ||
		tmp.Mode().Perm()|tmp.Mode()&fs.ModeSticky != 0o777|fs.ModeSticky {
		t.Errorf("shell: %v, %v; tmp: %v, %v", shell, err, tmp, tmpErr)
	}

	// Another name for the same program: the same layer, which is there once.
	other := resolve(t, lib, "host:/bin/sh")
	files, err := os.ReadDir(filepath.Join(dir, "layers"))
	if other.Digest() != img.Digest() || len(files) != 1 || err != nil {
		t.Errorf("digests %s and %s, %d layers, %v; want the same, and one", img.Digest(), other.Digest(), len(files), err)
	}
	again := resolve(t, image.NewLibrary(t.TempDir()), "host:sh")
	if again.Digest() != img.Digest() {
		t.Errorf("another library: digest %s, want %s", again.Digest(), img.Digest())
	}
}

// A program that is not there must not be looked for in an engine's own store.
func TestHostProgramRefused(t *testing.T) {
	dir := t.TempDir()
	for _, ref := range []string{"host:no-such-program", "host:/no/such/program", "host:/etc/passwd"} {
		_, err := image.NewLibrary(dir).Resolve(t.Context(), ref)
		if !errors.Is(err, bench.ErrUnsupported) || errors.Is(err, image.ErrForeign) {
			t.Errorf("%s: %v, want an error that wraps bench.ErrUnsupported", ref, err)
		}
	}
	if _, err := image.NewLibrary(dir, image.WithLimits(image.Limits{Bytes: 1000})).Resolve(t.Context(),
		"host:/bin/sh"); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("more than the limit: %v, want an error that wraps bench.ErrUnsupported", err)
	}
	if files, err := os.ReadDir(dir); len(files) > 0 || err != nil {
		t.Errorf("left %v, %v", files, err)
	}
}
