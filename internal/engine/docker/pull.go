package docker

import (
	"context"
	"fmt"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
)

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
