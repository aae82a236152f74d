package image_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// A store has one image, and may break off.
type store struct {
	bench.Engine
	archive string
	saved   int
	err     error
}

func (s *store) Name() string { return "store" }

func (s *store) SaveImage(_ context.Context, name string, w io.Writer) error {
	s.saved++
	if name != "shop" {
		return errors.New("no such image")
	}
	data, err := os.ReadFile(s.archive)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return errors.Join(err, s.err)
}

// An image that only its engine has is saved once; one that could not be saved is
// tried again, and nothing of it is taken.
func TestResolveIn(t *testing.T) {
	lib, s := imagetest.Library(t), &store{archive: archive(t), err: errors.New("cut off")}
	if _, err := lib.ResolveIn(t.Context(), s, "shop"); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("%v", err)
	}
	s.err = nil
	first, err := lib.ResolveIn(t.Context(), s, "shop")
	if err != nil {
		t.Fatal(err)
	}
	again, err := lib.ResolveIn(t.Context(), s, "shop")
	if err != nil || again.Digest() != first.Digest() || s.saved != 2 {
		t.Errorf("saved %d times, %v", s.saved, err)
	}
	if _, err := lib.ResolveIn(t.Context(), s, "none"); err == nil || !strings.Contains(err.Error(), "no such image") {
		t.Errorf("%v", err)
	}
	if img, err := lib.ResolveIn(t.Context(), s, "tar:"+s.archive); err != nil || img.Digest() != first.Digest() {
		t.Errorf("from the archive itself: %v", err)
	}
}

// An engine without a store has nothing but what others have.
func TestResolveInNoStore(t *testing.T) {
	if _, err := imagetest.Library(t).ResolveIn(t.Context(), nil, "shop"); !errors.Is(err, image.ErrForeign) {
		t.Errorf("%v", err)
	}
}

// What a store writes is bounded.
func TestStoreThatWritesWithoutEnd(t *testing.T) {
	s := &store{archive: archive(t)}
	lib := image.NewLibrary(t.TempDir(), image.WithLimits(image.Limits{Bytes: 100}))
	if _, err := lib.ResolveIn(t.Context(), s, "shop"); err == nil || !errors.Is(err, image.ErrHostile) {
		t.Errorf("%v", err)
	}
}

// archive is an image's file.
func archive(t *testing.T) string {
	t.Helper()
	file, ok := strings.CutPrefix(imagetest.Foreign(t, imagetest.Agent(t)), "tar:")
	if !ok {
		t.Fatal("not an archive")
	}
	return file
}
