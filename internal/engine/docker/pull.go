package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
)

// pullGrace is how long what a pull has left is looked for after its context has
// ended: the engine learns of that by the connection, and then stops.
const pullGrace = 10 * time.Second

// Pull implements bench.Puller with one call. The engine takes every address of
// 127.0.0.0/8 for a registry that may speak HTTP. When the call returns, every
// layer is unpacked.
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
	e.mu.Lock()
	e.sent[spec.Image] = true // also if the answer is lost
	e.mu.Unlock()
	err = e.pull(ctx, spec.Image)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullGrace)
	defer cancel()
	return e.failed("pull "+spec.Image, errors.Join(err, e.Evict(clean, spec)))
}

func (e *Engine) pull(ctx context.Context, ref string) error {
	answer, err := e.client.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }() // it was only read
	return loadError(answer)
}

// Evict implements bench.Puller.
func (e *Engine) Evict(ctx context.Context, spec bench.Spec) error {
	if err := bench.CheckPull(spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	e.forget(spec.Image)
	if err := e.removeImage(ctx, spec.Image); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sent, spec.Image)
	return nil
}
