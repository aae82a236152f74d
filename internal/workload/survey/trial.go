package survey

import (
	"context"
	"errors"
	"fmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/party"
)

// A part under way in one cell.
type running struct {
	Part
	task    bench.Task // with its own options and fixture
	refused error      // why the engine cannot do what it asks for
}

// A stop is a part in containers of its own, or several parts in one container.
type stop struct {
	parts []*running
	shift *party.Shift // nil for one part
}

// fixture is what the parts of one cell have set up.
type fixture struct {
	parts []*running
	stops []stop
}

// Setup implements bench.Fixturer.
func (s survey) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	f := &fixture{}
	for _, p := range s.parts {
		r := &running{Part: p, task: p.task(t)}
		f.parts = append(f.parts, r) // what it set up before it failed is removed too
		if err := r.note(r.setUp(ctx)); err != nil {
			return nil, errors.Join(err, f.Remove(context.WithoutCancel(ctx)))
		}
	}
	f.stops = stops(t.Engine, f.parts)
	return f, nil
}

// setUp finds out whether the engine can do the part, as far as it knows before.
func (r *running) setUp(ctx context.Context) (err error) {
	if err := r.Workload.Check(ctx, r.task); err != nil {
		return err
	}
	f, ok := r.Workload.(bench.Fixturer)
	if !ok {
		return nil
	}
	if r.task.Fixture, err = f.Setup(ctx, r.task); err != nil || r.task.Fixture == nil {
		return err
	}
	if _, ok := party.Join(r.task.Engine, r.task.Fixture); !ok {
		return nil
	}
	// It may share a container with others, who shall not be refused for it.
	return r.task.Fixture.Reset(ctx)
}

// stops has consecutive parts share a container as far as they can.
func stops(e bench.Engine, parts []*running) (all []stop) {
	var fixtures []bench.Fixture // of the last stop
	for _, r := range parts {
		if r.refused != nil {
			continue
		}
		if s, ok := party.Join(e, append(fixtures, r.task.Fixture)...); ok && len(fixtures) > 0 {
			last := &all[len(all)-1]
			last.parts, last.shift = append(last.parts, r), s
		} else {
			all, fixtures = append(all, stop{parts: []*running{r}}), nil
		}
		fixtures = append(fixtures, r.task.Fixture)
	}
	return all
}

// note names the part in an error; that the engine cannot do something is none,
// and ends the part.
func (r *running) note(err error) error {
	if err == nil || errors.Is(err, bench.ErrUnsupported) {
		if r.refused == nil {
			r.refused = err
		}
		return nil
	}
	return fmt.Errorf("%s: %w", r.Name, err)
}

func (f *fixture) Reset(ctx context.Context) error {
	for _, s := range f.stops {
		if err := s.reset(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s stop) reset(ctx context.Context) error {
	r := s.parts[0]
	switch {
	case s.shift != nil:
		return s.shift.Reset(ctx)
	case r.task.Fixture == nil || r.refused != nil:
		return nil
	}
	return r.note(r.task.Fixture.Reset(ctx))
}

func (f *fixture) Rest(ctx context.Context) error {
	return f.each(func(one bench.Fixture) error {
		if r, ok := one.(bench.Rester); ok {
			return r.Rest(ctx)
		}
		return nil
	})
}

func (f *fixture) Remove(ctx context.Context) error {
	return f.each(func(one bench.Fixture) error { return one.Remove(ctx) })
}

// each goes through the fixtures, whatever fails.
func (f *fixture) each(do func(bench.Fixture) error) error {
	var errs []error
	for _, r := range f.parts {
		if r.task.Fixture == nil {
			continue
		}
		if err := do(r.task.Fixture); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Run implements bench.Workload.
func (s survey) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	f, ok := t.Fixture.(*fixture)
	if !ok {
		return errors.New("the survey was not set up")
	}
	sum := newSummary(m, s.Metrics())
	for _, one := range f.stops {
		if err := one.run(ctx, sum); err != nil {
			return err
		}
	}
	for _, r := range f.parts {
		if r.refused != nil {
			m.Note(fmt.Sprintf("%s: %s: %.300s", bench.NotePartly, r.Name, r.refused))
		}
	}
	return sum.flush()
}

func (s stop) run(ctx context.Context, sum *summary) error {
	if s.shift != nil {
		listeners := make([]party.Listener, len(s.parts))
		for i, r := range s.parts {
			listeners[i] = party.Listener{Meter: sum.of(r.Part), Err: r.note}
		}
		return s.shift.Work(ctx, sum, listeners)
	}
	r := s.parts[0]
	if r.refused != nil {
		return nil
	}
	return r.note(r.Workload.Run(ctx, r.task, sum.of(r.Part)))
}
