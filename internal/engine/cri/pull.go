package cri

import (
	"context"
	"fmt"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
)

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
