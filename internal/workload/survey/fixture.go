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
	survey      survey
	parts       []*partState
	groups      []group // of the current trial
	usualGroups []group // what the stops would be if nothing had failed
}

// Calibrate implements bench.Calibrator. A part whose Learn fails is left out of the cell;
// unlearned keeps the reason for Setup.
func (s survey) Calibrate(ctx context.Context, t bench.Task) error {
	for _, p := range s.parts {
		l, ok := p.Workload.(bench.Calibrator)
		task := s.task(p, t)
		if !ok || p.Workload.Check(ctx, task) != nil {
			continue
		}
		err := l.Calibrate(ctx, task)
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if err != nil {
			calibrationErrors(t)[p.Name] = err
		}
	}
	return nil
}

// calibrationErrors returns the errors of Learn of a cell's parts, by part.
func calibrationErrors(t bench.Task) map[string]error {
	name := fmt.Sprintf("survey unlearned %d", t.Cell)
	// Making it cannot fail.
	why, _ := bench.GetCommon(t.Common, name, func() (map[string]error, error) { return map[string]error{}, nil })
	return why
}

// Setup implements bench.Fixturer. A part that cannot be set up is left out. If no part
// can be set up, that is an error.
func (s survey) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	f := &fixture{survey: s}
	for i, p := range s.parts {
		r := &partState{Part: p, number: i, task: s.task(p, t)}
		f.parts = append(f.parts, r) // before setUp, so that Remove finds a fixture whose Reset fails
		if r.givenUp = calibrationErrors(t)[p.Name]; r.givenUp == nil {
			r.givenUp = r.setUp(ctx)
		}
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(r.named(err), f.Remove(context.WithoutCancel(ctx)))
		}
	}
	if err := f.noPartError(); err != nil {
		return nil, errors.Join(err, f.Remove(context.WithoutCancel(ctx)))
	}
	return f, nil
}

// Reset implements bench.Fixture.
func (f *fixture) Reset(ctx context.Context) error {
	f.groups, f.usualGroups = groupParts(f.parts, false), groupParts(f.parts, true)
	for _, r := range f.parts {
		r.failed = nil
		r.regrouped = !slices.Equal(r.groupNames(f.groups), r.groupNames(f.usualGroups))
	}
	for _, s := range f.groups {
		if err := s.note(ctx, s.reset(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// Suspend implements bench.FixtureSuspender.
func (f *fixture) Suspend(ctx context.Context) error {
	return f.each(func(one bench.Fixture) error {
		if r, ok := one.(bench.FixtureSuspender); ok {
			return r.Suspend(ctx)
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

// noPartError returns an error if no part of the cell has values: the failures or, if nothing
// failed, what the engine does not support.
func (f *fixture) noPartError() error {
	var failed, unsupported reasons
	for _, r := range f.parts {
		switch why := r.err(); {
		case why == nil:
			return nil
		case errors.Is(why, bench.ErrUnsupported):
			unsupported.add(r.Name, f.survey.errorHere(r.Part, why))
		default:
			failed.add(r.Name, f.survey.errorHere(r.Part, why))
		}
	}
	if failed != nil {
		return failed.inOneLine()
	}
	return unsupported.inOneLine()
}

// reasons say why parts have no values. Parts of one container have one reason.
type reasons []reason

type reason struct {
	parts string // names, separated by commas
	err   error
}

func (all *reasons) add(part string, err error) {
	for i := range *all {
		if one := &(*all)[i]; bench.ReasonKind(one.err.Error()) == bench.ReasonKind(err.Error()) {
			one.parts += ", " + part
			return
		}
	}
	*all = append(*all, reason{part, err})
}

// inOneLine is errors.Join, with semicolons.
func (all reasons) inOneLine() (joined error) {
	for _, one := range all {
		err := fmt.Errorf("%s: %w", one.parts, one.err)
		if joined != nil {
			err = fmt.Errorf("%w; %w", joined, err)
		}
		joined = err
	}
	return joined
}

// recordParts marks the sample with the parts that lack values.
func (f *fixture) recordParts(to bench.Recorder) {
	for _, r := range f.parts {
		p := bench.PartOutcome{Part: r.Name, Outcome: bench.OK}
		if name := r.Workload.Name(); name != r.Name {
			p.Workload = name
		}
		switch why := r.err(); {
		case why == nil && r.regrouped:
			p.Regrouped = &bench.Regrouping{With: r.containerNames(f.groups), Usual: r.containerNames(f.usualGroups)}
		case why == nil:
			continue
		case errors.Is(why, bench.ErrUnsupported):
			p.Outcome, p.Reason = bench.Unsupported, bench.Reason(f.survey.adviceHere(r.Part, why.Error()))
		default:
			p.Outcome, p.Reason = bench.Failed, bench.Reason(f.survey.adviceHere(r.Part, why.Error()))
		}
		to.Part(p)
	}
}
