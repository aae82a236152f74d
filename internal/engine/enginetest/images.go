package enginetest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// An image of several layers, stored in every way that there is, is the same in
// every engine: its files, its program and its digest, in a directory as in a
// registry.
func anyImage(t *testing.T, s *suite) {
	layout := imagetest.Layered(t, imagetest.Agent(t))
	if s.refused(t, AnyImage, bench.Spec{Image: layout}) {
		return
	}
	for _, ref := range []string{layout, imagetest.Registry(t, layout)} {
		img, err := s.env.Images.Resolve(t.Context(), ref)
		noError(t, err)
		x, exit := s.run(t, bench.Spec{Image: ref})
		if out := x.stdout.String(); out != "second" || exit != (bench.Exit{}) || x.applied.Image != img.Digest() {
			t.Errorf("%s: %q, %v, image %s; want second, success and %s (stderr: %.300q)",
				ref, out, exit, x.applied.Image, img.Digest(), x.stderr.String())
		}
		gone := bench.Spec{Image: ref, Argv: []string{agent.Path, "cat", "/etc/gone"}}
		if _, exit := s.run(t, gone); exit.Code == 0 {
			t.Errorf("%s: a file is there that the third layer has taken away", ref)
		}
	}
}

// An image of another architecture is refused before anything is made of it,
// and one without a program when there is none to run.
func wrongImage(t *testing.T, s *suite) {
	if s.unsupported(AnyImage) {
		return
	}
	never := []byte("is not run")
	other := bench.Spec{Image: imagetest.LayeredWith(t, never, "s390x", nil)}
	if err := s.engine.Prepare(t.Context(), other); err == nil || !errors.Is(err, image.ErrPlatform) && !s.Remote {
		t.Errorf("Prepare of an image for s390x: %v, want an error that wraps image.ErrPlatform", err)
	}
	idle := bench.Spec{Image: imagetest.LayeredWith(t, never, runtime.GOARCH, nil)}
	err := s.engine.Prepare(t.Context(), idle)
	if err == nil {
		var c bench.Container
		if c, err = s.engine.Create(t.Context(), idle); err == nil {
			s.adopt(t, c, idle, "")
		}
	}
	if !strings.Contains(fmt.Sprint(err), "neither entry point nor command") {
		t.Errorf("an image without a program: %v, want an error that says so", err)
	}
}

// The engine finds its own images, and no others.
func findsImage(t *testing.T, s *suite, finder bench.ImageFinder) {
	s.loaded(t, func(_ *image.Image, name string) error { return finder.FindImage(t.Context(), name) })
	err := finder.FindImage(t.Context(), "tare.invalid/none:1")
	if !errors.Is(err, bench.ErrNoImage) ||
		!strings.Contains(err.Error(), s.engine.Name()+` has no image "tare.invalid/none:1"`) {
		t.Errorf("an image that is not there: %v, want bench.ErrNoImage, and its name", err)
	}
}

// An image that the engine saves is the one that was loaded.
func savesImage(t *testing.T, s *suite, saver bench.ImageSaver) {
	s.loaded(t, func(img *image.Image, name string) error {
		file := filepath.Join(t.TempDir(), "saved.tar")
		f, err := os.Create(file)
		noError(t, err)
		if err := errors.Join(saver.SaveImage(t.Context(), name, f), f.Close()); err != nil {
			return err
		}
		got, err := s.env.Images.Resolve(t.Context(), "tar:"+file)
		if err != nil || got.Digest() != img.Digest() {
			t.Errorf("%s was saved as %v (%v), want %s", name, got, err, img.Digest())
		}
		return nil
	})
	if err := saver.SaveImage(t.Context(), "tare.invalid/none:1", io.Discard); err == nil ||
		!strings.Contains(err.Error(), "tare.invalid/none:1") {
		t.Errorf("an image that is not there: %v, want an error that names it", err)
	}
}

// loaded makes the engine load an image, and calls do with its name, in two forms. It fails if do
// fails with both.
func (s *suite) loaded(t *testing.T, do func(img *image.Image, name string) error) {
	t.Helper()
	t.Setenv("CONTAINERD_NAMESPACE", "tare") // the namespace into which that engine loads
	img, err := s.env.Images.Resolve(t.Context(), "")
	noError(t, err)
	s.prepared(t, s.spec("exit", "0"))
	var errs []error
	for _, name := range []string{"agent", strings.TrimPrefix(img.Digest(), "sha256:")[:12]} {
		err := do(img, fmt.Sprintf("tare.local/%s/%s/%s:latest", s.env.Run, s.engine.Name(), name))
		if err == nil {
			return
		}
		errs = append(errs, err)
	}
	t.Error(errors.Join(errs...))
}
