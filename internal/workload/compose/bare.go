package compose

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A maker brings a project up and down. Its spans end when it has done its part, whether services are
// ready or not.
type maker interface {
	up(ctx context.Context, c bench.Clock) (bench.Span, error)
	down(ctx context.Context, c bench.Clock) (bench.Span, error)
}

// A bareLoop makes the calls that compose makes for the generated file: a network; a container after
// the other, each of which is started at once; later stop, in the other order, then remove, and the
// network. It leaves out what compose asks in between.
type bareLoop struct {
	*project
	made []bench.Container
}

// stopGrace is how long compose lets a container end before it is killed.
const stopGrace = 10 * time.Second

func (b *bareLoop) up(ctx context.Context, c bench.Clock) (bench.Span, error) {
	return c.Step(Up, func() error {
		if err := b.projecter.MakeNetwork(ctx, b.name); err != nil {
			return err
		}
		for _, s := range b.services {
			made, err := b.engine.Create(ctx, s.spec)
			if err == nil {
				b.made = append(b.made, made)
				err = made.Start(ctx)
			}
			if err != nil {
				return fmt.Errorf("service %s: %w", s.name, err)
			}
		}
		return nil
	})
}

func (b *bareLoop) down(ctx context.Context, c bench.Clock) (bench.Span, error) {
	stopper, ok := bench.As[bench.Stopper](b.engine)
	if !ok {
		return bench.Span{}, fmt.Errorf("%w: engine %s has no stop of its own", bench.ErrUnsupported, b.engine.Name())
	}
	return c.Step(Down, func() error {
		for i, made := range slices.Backward(b.made) {
			if err := stopper.Stop(ctx, made, stopGrace); err != nil {
				return fmt.Errorf("service %s: %w", b.services[i].name, err)
			}
		}
		for i, made := range slices.Backward(b.made) {
			if err := made.Remove(ctx); err != nil {
				return fmt.Errorf("service %s: %w", b.services[i].name, err)
			}
		}
		return b.projecter.DropNetwork(ctx, b.name)
	})
}
