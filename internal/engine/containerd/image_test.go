package containerd

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image"
)

// An import survives that another run deletes the namespace while it is empty, and the import's lease with it.
func TestImportWhileNamespaceGoes(t *testing.T) {
	e := New(Config{Name: "containerd", Run: "run-1", Dir: t.TempDir(), Images: image.NewLibrary(t.TempDir())})
	_, err := e.Probe(t.Context())
	enginetest.Require(t, "containerd", err)
	s, done, err := e.connectTemporarily(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	img, err := e.cfg.Images.Resolve(t.Context(), "host:/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	const space, name = "tare-test-import", "tare.local/lost:latest" // a namespace in which nothing else works
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	there := namespaces.WithNamespace(ctx, space)
	t.Cleanup(func() {
		there := namespaces.WithNamespace(context.Background(), space)
		err := errors.Join(
			s.client.ImageService().Delete(there, name, images.SynchronousDelete()),
			s.client.NamespaceService().Delete(there, space))
		if err != nil {
			t.Error(err)
		}
	})
	times := 0
	got, err := e.receive(there, s, name, func(w io.Writer) error {
		if times++; times == 1 { // the lease may not be there yet
			for s.client.NamespaceService().Delete(there, space) != nil && there.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}
		return img.WriteDockerArchive(w, name)
	})
	if err != nil || times != 2 {
		t.Fatalf("after %d imports: %v", times, err)
	}
	if err := checkDigest(there, got, img.Digest()); err != nil {
		t.Error(err)
	}
}
