package survey

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// fixture holds the fixtures of the parts of one cell.
type fixture struct {
	parts []*running
	stops []stop // of the current trial
	usual []stop // what the stops would be if nothing had failed
}

// Learn implements bench.Learner. A part whose Learn fails is left out of the cell;
// unlearned keeps the reason for Setup.
func (s survey) Learn(ctx context.Context, t bench.Task) error {
	for _, p := range s.parts {
		l, ok := p.Workload.(bench.Learner)
		task := p.task(t)
		if !ok || p.Workload.Check(ctx, task) != nil {
			continue
		}
		err := l.Learn(ctx, task)
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if err != nil {
			unlearned(t)[p.Name] = err
		}
	}
	return nil
}

// unlearned returns the errors of Learn of a cell's parts, by part.
func unlearned(t bench.Task) map[string]error {
	name := fmt.Sprintf("survey unlearned %d", t.Cell)
	// Making it cannot fail.
	why, _ := bench.InCommon(t.Common, name, func() (map[string]error, error) { return map[string]error{}, nil })
	return why
}

// Setup implements bench.Fixturer. A part that cannot be set up is left out. If no part
// can be set up, that is an error.
func (s survey) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	f := &fixture{}
	for _, p := range s.parts {
		r := &running{Part: p, task: p.task(t)}
		f.parts = append(f.parts, r) // before setUp, so that Remove finds a fixture whose Reset fails
		if r.refused = unlearned(t)[p.Name]; r.refused == nil {
			r.refused = r.setUp(ctx)
		}
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(r.named(err), f.Remove(context.WithoutCancel(ctx)))
		}
	}
	if err := f.nothing(); err != nil {
		return nil, errors.Join(err, f.Remove(context.WithoutCancel(ctx)))
	}
	return f, nil
}

// Reset implements bench.Fixture.
func (f *fixture) Reset(ctx context.Context) error {
	f.stops, f.usual = stops(f.parts, false), stops(f.parts, true)
	for _, r := range f.parts {
		r.failed = nil
		r.apart = !slices.Equal(r.company(f.stops), r.company(f.usual))
	}
	for _, s := range f.stops {
		if err := s.note(ctx, s.reset(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// Rest implements bench.Rester.
func (f *fixture) Rest(ctx context.Context) error {
	return f.each(func(one bench.Fixture) error {
		if r, ok := one.(bench.Rester); ok {
			return r.Rest(ctx)
		}
		return nil
	})
}

// Remove implements bench.Fixture.
func (f *fixture) Remove(ctx context.Context) error {
	return f.each(func(one bench.Fixture) error { return one.Remove(ctx) })
}

// each calls do for every fixture, even after errors.
func (f *fixture) each(do func(bench.Fixture) error) error {
	var errs []error
	for _, r := range f.parts {
		if r.task.Fixture == nil {
			continue
		}
		if err := do(r.task.Fixture); err != nil {
			errs = append(errs, r.named(err))
		}
	}
	return errors.Join(errs...)
}

// nothing returns an error if no part of the cell has values: the failures or, if nothing
// failed, what the engine does not support.
func (f *fixture) nothing() error {
	var failed, unsupported []error
	for _, r := range f.parts {
		switch why := r.why(); {
		case why == nil:
			return nil
		case errors.Is(why, bench.ErrUnsupported):
			unsupported = append(unsupported, r.named(why))
		default:
			failed = append(failed, r.named(why))
		}
	}
	if failed != nil {
		return inOneLine(failed)
	}
	return inOneLine(unsupported)
}

// inOneLine is errors.Join, with semicolons.
func inOneLine(errs []error) (all error) {
	for _, err := range errs {
		if all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// tell marks the sample with the parts that lack values.
func (f *fixture) tell(to bench.Recorder) {
	for _, r := range f.parts {
		p := bench.PartOutcome{Part: r.Name, Outcome: bench.OK}
		if name := r.Workload.Name(); name != r.Name {
			p.Workload = name
		}
		switch why := r.why(); {
		case why == nil && r.apart:
			p.Apart = &bench.Apart{With: r.container(f.stops), Usual: r.container(f.usual)}
		case why == nil:
			continue
		case errors.Is(why, bench.ErrUnsupported):
			p.Outcome, p.Reason = bench.Unsupported, bench.Reason(why.Error())
		default:
			p.Outcome, p.Reason = bench.Failed, bench.Reason(why.Error())
		}
		to.Part(p)
	}
}
