package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
)

// A storedImage is an image that the server has.
type storedImage struct {
	name   string   // under which the server knows it
	digest string   // of its configuration
	refs   []string // names that the server may use for it in a container's state
}

// imageOf returns the image that a reference names, and loads it if it is in a file. It does so
// once for each reference.
func (e *Engine) imageOf(ctx context.Context, s *server, ref string) (storedImage, error) {
	return e.images.Get(ref, func() (storedImage, error) {
		img, err := e.cfg.Images.Resolve(ctx, ref)
		switch {
		case errors.Is(err, image.ErrForeign):
			return e.findForeign(ctx, s, ref)
		case err != nil:
			return storedImage{}, err
		case s.store == nil:
			return e.present(ctx, s, img)
		}
		return e.load(ctx, s, img)
	})
}

// findForeign finds an image in the server's own store.
func (e *Engine) findForeign(ctx context.Context, s *server, ref string) (storedImage, error) {
	found, err := s.image(ctx, ref)
	if err != nil {
		return storedImage{}, e.failed(ctx, "look for image "+ref, err)
	}
	if found == nil {
		return storedImage{}, e.run.MissingImage(ref, "crictl pull")
	}
	return loadedAs(ref, found), nil
}

// FindImage implements bench.ImageFinder.
func (e *Engine) FindImage(ctx context.Context, name string) error {
	s, err := e.status(ctx)
	if err == nil {
		_, err = e.findForeign(ctx, s, name)
	}
	return err
}

// present finds an image by its digest in the store of a server that is not containerd. tare cannot
// load an image into such a server, because CRI itself only fetches images from registries.
func (e *Engine) present(ctx context.Context, s *server, img *image.Image) (storedImage, error) {
	found, err := s.image(ctx, strings.TrimPrefix(img.Digest(), "sha256:"))
	if err != nil {
		return storedImage{}, e.failed(ctx, "look for image "+img.Ref(), err)
	}
	if found == nil || digestOf(found) != img.Digest() {
		return storedImage{}, fmt.Errorf("%w: %s: %s has no image with the ID %s (%q), and CRI cannot load images from "+
			"files: load it in another way, such as `podman load` for CRI-O",
			bench.ErrUnsupported, e.cfg.Name, s.version.RuntimeName, img.Digest(), img.Ref())
	}
	return loadedAs(found.Id, found), nil
}

// load loads an image into containerd's store, and waits until its CRI server has noticed the image
// and offers it to pods.
func (e *Engine) load(ctx context.Context, s *server, img *image.Image) (storedImage, error) {
	name, err := e.run.NameOf(img)
	if err != nil {
		return storedImage{}, err
	}
	if _, err := e.send(ctx, s, img, name); err != nil {
		return storedImage{}, e.failed(ctx, "load image "+img.Ref(), err)
	}
	found, err := e.awaitImage(ctx, s, name)
	if err != nil {
		return storedImage{}, err
	}
	if digestOf(found) != img.Digest() {
		return storedImage{}, fmt.Errorf("%s: image %s: the server stored it as %s, not as %s", e.cfg.Name, img.Ref(),
			digestOf(found), img.Digest())
	}
	return loadedAs(name, found), nil
}

// awaitImage waits until the server has an image with this name.
func (e *Engine) awaitImage(ctx context.Context, s *server, name string) (*cri.Image, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second,
		errors.New("it was loaded, but the server does not offer it to pods"))
	defer cancel()
	for {
		found, err := s.image(ctx, name)
		if err != nil {
			return nil, e.failed(ctx, "look for image "+name, err)
		}
		if found != nil {
			return found, nil
		}
		if err := bench.Sleep(ctx, 5*time.Millisecond); err != nil {
			return nil, e.failed(ctx, "look for image "+name, err)
		}
	}
}

// image returns what the server knows about an image; nil if it does not have it.
func (s *server) image(ctx context.Context, name string) (*cri.Image, error) {
	answer, err := s.images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
	if isNotFound(err) {
		return nil, nil
	}
	return answer.GetImage(), err
}

func loadedAs(name string, found *cri.Image) storedImage {
	return storedImage{
		name: name, digest: digestOf(found), refs: slices.Concat([]string{found.Id, digestOf(found)}, found.RepoDigests),
	}
}

// digestOf is the digest of an image's configuration. Some servers omit the algorithm.
func digestOf(i *cri.Image) string {
	return "sha256:" + strings.TrimPrefix(i.GetId(), "sha256:")
}

// Pull implements bench.Puller with one call, PullImage. Containerd uses HTTP for a registry on
// loopback. When the call returns, every layer is unpacked.
func (e *Engine) Pull(ctx context.Context, spec bench.Spec) error {
	if err := bench.CheckPull(spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	s, err := e.status(ctx)
	if err != nil {
		return err
	}
	if err := e.check(ctx, s, spec); err != nil {
		return err
	}
	pull := func() error {
		_, err := s.images.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: spec.Image}})
		if err != nil {
			return e.failed(ctx, "pull "+spec.Image, err)
		}
		return nil
	}
	return e.images.Pull(ctx, spec.Image, pull, func(ctx context.Context) error { return e.Evict(ctx, spec) })
}

// Evict implements bench.Puller.
func (e *Engine) Evict(ctx context.Context, spec bench.Spec) error {
	if err := bench.CheckPull(spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	s, err := e.status(ctx)
	if err != nil {
		return err
	}
	return e.images.Evict(spec.Image, spec.Image, func() error { return e.evict(ctx, s, spec.Image) })
}

// evict makes the server remove the image with this name, and all its other names: only this pull
// uses the image.
func (e *Engine) evict(ctx context.Context, s *server, ref string) error {
	found, err := s.image(ctx, ref)
	if err == nil && found != nil {
		_, err = s.images.RemoveImage(ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: found.Id}})
	}
	if err == nil || isNotFound(err) {
		return nil
	}
	return e.failed(ctx, "remove image "+ref, err)
}

// leftoverImages lists the images that dead runs have pulled.
func (e *Engine) leftoverImages(ctx context.Context, s *server, add func(run, kind, id string)) error {
	answer, err := s.images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return e.failed(ctx, "list images", err)
	}
	for _, i := range answer.GetImages() {
		for _, tag := range i.GetRepoTags() {
			add(bench.PulledBy(tag), owned.KindImage, tag)
		}
	}
	return nil
}
