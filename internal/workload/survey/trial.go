package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// partState is the state of a part in one cell. See the package comment for who shares a
// container.
type partState struct {
	Part
	number         int        // among the parts of the survey
	task           bench.Task // with its own options and fixture
	givenUp        error      // why it was given up; nil = it is still tried
	failed         error      // why it failed in the current trial
	succeeded      bool       // it succeeded in some trial
	isolated       bool       // it failed in the last trial, so the next one tries it alone
	failuresInARow int        // trials in a row in which it failed, but others did not
	regrouped      bool       // its container is another one than usual in the current trial
}

// maxFailures is the number of failed trials in a row after which a part is given up.
const maxFailures = 2

// note keeps why the part failed. An error of the whole trial is returned, with the
// part's name: the time is over, or the engine did not apply the Spec.
func (r *partState) note(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || errors.Is(err, bench.ErrMismatch) || errors.Is(err, bench.ErrNoTurns):
		return r.named(err)
	case r.failed == nil:
		r.failed = err
	}
	return nil
}

func (r *partState) named(err error) error { return fmt.Errorf("%s: %w", r.Name, err) }

// err returns why the part lacks values in the trial; nil if it has all.
func (r *partState) err() error { return cmp.Or(r.givenUp, r.failed) }

// decide decides after a trial whether to give the part up: the engine does not support
// it, or it has failed again while others succeeded. A trial in which all have failed says
// nothing about a part: the engine may have been down. A service that was never ready is
// given up at once, because waiting again costs its whole timeout.
func (r *partState) decide(others bool) {
	if r.givenUp != nil {
		return
	}
	switch r.isolated = r.failed != nil; {
	case !r.isolated:
		r.failuresInARow, r.succeeded = 0, true
	case others:
		r.failuresInARow++
	}
	hopeless := errors.Is(r.failed, bench.ErrUnsupported) || errors.Is(r.failed, supervise.ErrNotReady) && !r.succeeded
	if hopeless || r.failuresInARow >= maxFailures {
		r.givenUp = r.failed
	}
}

// setUp checks the part and makes its fixture.
func (r *partState) setUp(ctx context.Context) error {
	if err := r.Workload.Check(ctx, r.task); err != nil {
		return err
	}
	f, ok := r.Workload.(bench.Fixturer)
	if !ok {
		return nil
	}
	made, err := f.Setup(ctx, r.task)
	if err != nil || made == nil {
		return err
	}
	r.task.Fixture = made
	if _, ok := supervise.NewBatch(made); !ok {
		return nil
	}
	// The part may share a container. If the engine refuses it, the others must not be
	// refused with it, so it is tried by itself first.
	return made.Reset(ctx)
}

// A group is one part with containers of its own, or several parts in one container.
type group struct {
	parts  []*partState
	shared supervise.Batched // nil for one part
}

// groupParts lets consecutive parts share a container if they can. A part that failed in the
// last trial is tried alone. asUsual returns the stops as they would be if no part that
// ever worked had failed.
func groupParts(parts []*partState, asUsual bool) (all []group) {
	var fixtures []bench.Fixture // of the last stop
	for _, r := range parts {
		switch shared, ok := supervise.NewBatch(append(fixtures, r.task.Fixture)...); {
		case r.givenUp != nil && !(asUsual && r.succeeded):
		case r.isolated && !asUsual:
			all, fixtures = append(all, group{parts: []*partState{r}}), nil
		case ok && len(fixtures) > 0:
			last := &all[len(all)-1]
			last.parts, last.shared = append(last.parts, r), shared
			fixtures = append(fixtures, r.task.Fixture)
		default:
			all, fixtures = append(all, group{parts: []*partState{r}}), []bench.Fixture{r.task.Fixture}
		}
	}
	return all
}

// groupNames returns the names of the parts in the container of r, without those after r that
// were given up, which r never met.
func (r *partState) groupNames(all []group) (names []string) {
	i := slices.IndexFunc(all, func(s group) bool { return slices.Contains(s.parts, r) })
	if i < 0 {
		return nil
	}
	after := false
	for _, o := range all[i].parts {
		if after = after || o == r; !after || o.givenUp == nil {
			names = append(names, o.Name)
		}
	}
	return names
}

// containerNames returns the names of all parts in the container of r.
func (r *partState) containerNames(all []group) (names []string) {
	for _, s := range all {
		if !slices.Contains(s.parts, r) {
			continue
		}
		for _, o := range s.parts {
			names = append(names, o.Name)
		}
	}
	return names
}

func (s group) reset(ctx context.Context) error {
	switch f := s.parts[0].task.Fixture; {
	case s.shared != nil:
		return s.shared.Reset(ctx)
	case f != nil:
		return f.Reset(ctx)
	}
	return nil
}

func (s group) run(ctx context.Context, clock bench.Clock, sum *summary) error {
	r := s.parts[0]
	if turns := r.task.Turns; turns != nil && turns.On() {
		turns.Part(r.number)
		// The containers of this group are made only when all cells have ended the one before. Before the first, the
		// trial has settled already, and has its turn.
		if r.number > 0 {
			if err := turns.WaitSettled(ctx); err != nil {
				return err
			}
		}
	}
	if s.shared == nil {
		return r.Workload.Run(ctx, r.task, bench.MeterOf(clock, sum.of(r)))
	}
	sinks := make([]supervise.PartSink, len(s.parts))
	for i, r := range s.parts {
		sinks[i] = supervise.PartSink{
			Number: r.number, Recorder: sum.of(r), Err: func(err error) error { return r.note(ctx, err) },
		}
	}
	return s.shared.Work(ctx, bench.MeterOf(clock, sum), sinks)
}

// note keeps why all of the parts failed.
func (s group) note(ctx context.Context, err error) error {
	for _, r := range s.parts {
		if err := r.note(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// tell says which parts begin. While cells take turns, several trials are under way.
func (s survey) tell(ctx context.Context, t bench.Task, one group) {
	if !s.whole || t.PartBegins == nil || ctx.Err() != nil || t.Turns != nil && t.Turns.On() {
		return
	}
	var names []string
	for _, r := range one.parts {
		names = append(names, r.Name)
	}
	t.PartBegins(strings.Join(names, ", "))
}

// Run implements bench.Workload.
func (s survey) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	f, ok := t.Fixture.(*fixture)
	if !ok {
		return errors.New("the survey was not set up")
	}
	sum := newSummary(m, s)
	for _, one := range f.groups {
		if one.parts[0].failed != nil {
			continue // its Reset failed
		}
		s.tell(ctx, t, one)
		if err := one.note(ctx, one.run(ctx, m, sum)); err != nil {
			return err
		}
	}
	nothing := f.noPartError()
	for _, r := range f.parts {
		r.decide(nothing == nil)
	}
	if nothing != nil {
		return nothing
	}
	f.recordParts(m)
	sum.noteThroughout(f.parts)
	return sum.flush()
}
