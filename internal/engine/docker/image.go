package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
)

// A store is where the engine keeps images.
type store struct{ *Engine }

// Image implements owned.Store.
func (s store) Image(ctx context.Context, ref string) (owned.Stored, error) {
	found, err := s.client.ImageInspect(ctx, ref)
	i := owned.Stored{ID: found.ID, Digest: found.ID, Names: found.RepoTags}
	if s.namedByManifest(found) && bench.PulledBy(ref) == "" {
		// The digest of a manifest differs between engines for the same image. It may stay for an
		// image that a run has pulled: no other run uses that image, and the registry that served
		// it knows its manifest too.
		i.Digest = ""
	}
	return i, err
}

// namedByManifest reports whether an image's ID is the digest of its manifest, as with containerd's
// image store, and not the digest of its configuration. Engines before API 1.48 do not tell this
// with the image.
func (e *Engine) namedByManifest(found client.ImageInspectResult) bool {
	return found.Descriptor != nil || e.manifests.Load()
}

// Gone implements owned.Store.
func (store) Gone(err error) bool { return isNotFound(err) }

// Tag implements owned.Store.
func (s store) Tag(ctx context.Context, id, name string) error {
	_, err := s.client.ImageTag(ctx, client.ImageTagOptions{Source: id, Target: name})
	return err
}

// Receive implements owned.Store.
func (s store) Receive(ctx context.Context, archive io.Reader) error {
	answer, err := s.client.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }() // it was only read
	return loadError(answer)
}

// loadError reads the messages that the engine sends while it loads an image, and returns the error
// that one of them reports.
func loadError(r io.Reader) error {
	messages := json.NewDecoder(r)
	for {
		var m struct {
			Error string `json:"error"`
		}
		switch err := messages.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return fmt.Errorf("%.500q", m.Error)
		}
	}
}

// removeImage removes an image's name, and the image itself if it has no other name. It does not
// remove parent images, which tare never sends.
func (e *Engine) removeImage(ctx context.Context, name string) error {
	_, err := e.client.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: false})
	if err == nil || isNotFound(err) {
		return nil
	}
	// Where two remove images of one content at the same time, Docker 20.10 removes the name and
	// answers one of them "unrecognized image ID".
	if _, gone := e.client.ImageInspect(ctx, name); isNotFound(gone) {
		return nil
	}
	return e.failed("remove image "+name, err)
}

// FindImage implements bench.ImageFinder.
func (e *Engine) FindImage(ctx context.Context, name string) error {
	if _, err := e.ask(ctx); err != nil {
		return err
	}
	_, err := e.images.Find(ctx, store{e}, name)
	return err
}

// SaveImage implements bench.ImageSaver.
func (e *Engine) SaveImage(ctx context.Context, name string, w io.Writer) error {
	if err := e.FindImage(ctx, name); err != nil {
		return err
	}
	answer, err := e.client.ImageSave(ctx, []string{name})
	if err != nil {
		return e.failed("save image "+name, err)
	}
	defer func() { _ = answer.Close() }() // it was only read
	_, err = io.Copy(w, answer)
	return err
}

// LoadImage implements bench.ImageLoader.
func (e *Engine) LoadImage(ctx context.Context, archive io.Reader, name, digest string) error {
	if _, err := e.ask(ctx); err != nil {
		return err
	}
	return e.images.Import(ctx, store{e}, archive, name, digest)
}

// Pull implements bench.Puller with one call. The engine accepts HTTP from registries in
// 127.0.0.0/8. When the call returns, every layer is unpacked.
func (e *Engine) Pull(ctx context.Context, spec bench.Spec) error {
	if err := bench.CheckPull(spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	info, err := e.ask(ctx)
	if err != nil {
		return err
	}
	if err := e.check(ctx, info, spec); err != nil {
		return err
	}
	err = e.images.Pull(ctx, spec.Image,
		func() error { return e.pull(ctx, spec.Image) },
		func(ctx context.Context) error { return e.Evict(ctx, spec) })
	return e.failed("pull "+spec.Image, err)
}

func (e *Engine) pull(ctx context.Context, ref string) error {
	answer, err := e.client.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err != nil {
		return bench.Because(ctx, err)
	}
	defer func() { _ = answer.Close() }() // it was only read
	return bench.Because(ctx, loadError(answer))
}

// Evict implements bench.Puller.
func (e *Engine) Evict(ctx context.Context, spec bench.Spec) error {
	if err := bench.CheckPull(spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	return e.images.Evict(spec.Image, spec.Image, func() error { return e.removeImage(ctx, spec.Image) })
}
