package party

import (
	"context"

	"github.com/tare-bench/tare/internal/bench"
)

// Stage returns a Fixture that has the engine prepare, before each trial, what
// the trial will create.
func Stage(e bench.Engine, specs ...bench.Spec) bench.Fixture { return stage{e, specs} }

type stage struct {
	engine bench.Engine
	specs  []bench.Spec
}

func (s stage) Reset(ctx context.Context) error {
	for _, spec := range s.specs {
		if err := s.engine.Prepare(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

func (stage) Remove(context.Context) error { return nil }
