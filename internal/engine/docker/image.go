package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// repository begins the names of all images that tare loads. No registry can
// have that name, so that an engine never asks one for them.
const repository = "tare.local/"

// A loaded image is one that the engine has.
type loaded struct {
	name   string // under which the engine knows it
	id     string // the engine's own
	digest string // of its configuration; empty where it is not known
}

// imageOf returns the image that a reference means, and loads it if it is in a
// file. It does so once for each reference.
func (e *Engine) imageOf(ctx context.Context, ref string) (loaded, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l, ok := e.loaded[ref]; ok {
		return l, nil
	}
	img, err := e.cfg.Images.Resolve(ctx, ref)
	var l loaded
	switch {
	case errors.Is(err, image.ErrForeign):
		l, err = e.own(ctx, ref)
	case err == nil:
		l, err = e.load(ctx, img)
	}
	if err == nil {
		e.loaded[ref] = l
	}
	return l, err
}

func (e *Engine) forget(ref string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.loaded, ref)
}

// own finds an image in the engine's own store.
func (e *Engine) own(ctx context.Context, ref string) (loaded, error) {
	found, err := e.client.ImageInspect(ctx, ref)
	if gone(err) {
		return loaded{}, fmt.Errorf("%s %w %q: fetch it first with `docker pull %s`, or %s", e.cfg.Name, bench.ErrNoImage, ref, ref, image.NamedElsewhere(ref))
	}
	if err != nil {
		return loaded{}, e.failed("inspect image "+ref, err)
	}
	l := loaded{name: ref, id: found.ID, digest: found.ID}
	if e.byManifest(found) {
		l.digest = "" // another engine would have another for the same image
	}
	return l, nil
}

// byManifest reports whether the ID of an image is the digest of its manifest, as in an
// engine with the image store of containerd, and not that of its configuration. Those
// before API 1.48 do not say so with the image.
func (e *Engine) byManifest(found client.ImageInspectResult) bool {
	return found.Descriptor != nil || e.manifests.Load()
}

// FindImage implements bench.ImageFinder.
func (e *Engine) FindImage(ctx context.Context, name string) error {
	if _, err := e.ask(ctx); err != nil {
		return err
	}
	_, err := e.own(ctx, name)
	return err
}

// SaveImage implements bench.ImageSaver.
func (e *Engine) SaveImage(ctx context.Context, name string, w io.Writer) error {
	if _, err := e.ask(ctx); err != nil {
		return err
	}
	if _, err := e.own(ctx, name); err != nil {
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

// load hands an image to the engine, and verifies what it made of it.
func (e *Engine) load(ctx context.Context, img *image.Image) (loaded, error) {
	short := strings.TrimPrefix(img.Digest(), "sha256:")
	if len(short) < 12 {
		return loaded{}, fmt.Errorf("image %s: not a digest: %q", img.Ref(), img.Digest())
	}
	name := repository + e.cfg.Run + "/" + e.cfg.Name + "/" + short[:12] + ":latest"
	if img.Ref() == image.Agent {
		name = repository + e.cfg.Run + "/" + e.cfg.Name + "/agent:latest"
	}
	if l, err := e.present(ctx, img, name); err != nil || l != (loaded{}) {
		return l, err
	}
	e.sent[name] = true // also if the answer is lost
	if err := e.send(ctx, img, name); err != nil {
		return loaded{}, e.failed("load image "+img.Ref(), err)
	}
	found, err := e.client.ImageInspect(ctx, name)
	if err != nil {
		return loaded{}, e.failed("inspect image "+name, err)
	}
	// The name vouches for an image that has its manifest's ID.
	if found.ID != img.Digest() && !e.byManifest(found) {
		return loaded{}, errors.Join(
			fmt.Errorf("%s: image %s became %s instead of %s", e.cfg.Name, img.Ref(), found.ID, img.Digest()),
			e.removeImage(ctx, name),
		)
	}
	return loaded{name: name, id: found.ID, digest: img.Digest()}, nil
}

// present returns the image as the engine has it already; the zero value if it
// does not. One that others have under some name gets ours beside it, so that
// it stays as long as anybody needs it. One without any name is used as it is:
// whoever takes the last name off an image deletes it.
func (e *Engine) present(ctx context.Context, img *image.Image, name string) (loaded, error) {
	found, err := e.client.ImageInspect(ctx, img.Digest())
	if gone(err) || err == nil && found.ID != img.Digest() {
		return loaded{}, nil
	}
	if err != nil {
		return loaded{}, e.failed("inspect image "+img.Digest(), err)
	}
	l := loaded{name: name, id: found.ID, digest: img.Digest()}
	if len(found.RepoTags) == 0 {
		l.name = found.ID
		return l, nil
	}
	e.sent[name] = true // also if the answer is lost
	_, err = e.client.ImageTag(ctx, client.ImageTagOptions{Source: found.ID, Target: name})
	if gone(err) {
		return loaded{}, nil // removed this instant
	}
	if err != nil {
		return loaded{}, e.failed("tag image "+found.ID, err)
	}
	return l, nil
}

// send streams the image to the engine without keeping it anywhere.
func (e *Engine) send(ctx context.Context, img *image.Image, name string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(img.WriteDockerArchive(w, name)) }()
	defer func() { _ = r.Close() }() // ends the writer; it was only read
	return e.transfer(ctx, r)
}

// LoadImage implements bench.ImageLoader.
func (e *Engine) LoadImage(ctx context.Context, archive io.Reader, name, digest string) error {
	if _, err := e.ask(ctx); err != nil {
		return err
	}
	if err := e.transfer(ctx, archive); err != nil {
		return e.failed("load image "+name, err)
	}
	found, err := e.client.ImageInspect(ctx, name)
	if err != nil {
		return e.failed("inspect image "+name, err)
	}
	if found.ID != digest && !e.byManifest(found) { // see load
		return fmt.Errorf("%s: image %s became %s instead of %s", e.cfg.Name, name, found.ID, digest)
	}
	return nil
}

// transfer streams an archive to the engine.
func (e *Engine) transfer(ctx context.Context, archive io.Reader) error {
	answer, err := e.client.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }() // it was only read
	return loadError(answer)
}

// loadError reads the messages that the engine sends while it loads an image,
// and returns the one that says that it failed.
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

// removeImage removes a name, and the image if it has no other; not those that
// it was built from, which tare never sends.
func (e *Engine) removeImage(ctx context.Context, name string) error {
	_, err := e.client.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: false})
	if err != nil && !gone(err) {
		return e.failed("remove image "+name, err)
	}
	return nil
}
