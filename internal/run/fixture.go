package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// setupTime is the time limit for making one fixture, or for learning about one cell.
const setupTime = 10 * time.Minute

// fixtures holds the fixtures of a run. Each is made when a trial first needs it.
type fixtures struct {
	keys      []string         // by cell
	live      []*fixture       // existing ones, in order of making
	unneeded  map[string]bool  // keys of cells that need none
	setUpErrs map[string]error // by key: nil if it was ever made, else why it could not be
	unremoved []bench.Fixture  // no longer needed, but their removal failed
	uses      int
	setUpTime time.Duration // time for making each the first time
}

// A fixture is one that exists.
type fixture struct {
	bench.Fixture
	key  string
	used int // the larger, the later
}

func newFixtures(o Options, task func(cell int) bench.Task) fixtures {
	f := fixtures{unneeded: map[string]bool{}, setUpErrs: map[string]error{}}
	for cell := range o.Header.Plan.Cells {
		key := strconv.Itoa(cell)
		if keyer, ok := o.Workload.(bench.FixtureKeyer); ok {
			key = keyer.Key(task(cell))
		}
		f.keys = append(f.keys, key)
	}
	return f
}

// of returns the fixture of a cell; nil if it has none.
func (f *fixtures) of(cell int) bench.Fixture {
	i := slices.IndexFunc(f.live, func(one *fixture) bool { return one.key == f.keys[cell] })
	if i < 0 {
		return nil
	}
	return f.live[i].Fixture
}

// markUsed notes that a trial is about to use the fixture with a key. It reports whether the
// fixture exists, or is not needed.
func (f *fixtures) markUsed(key string) bool {
	f.uses++
	for _, one := range f.live {
		if one.key == key {
			one.used = f.uses
			return true
		}
	}
	return f.unneeded[key]
}

// calibrate lets a Learner measure what it must know before the first trial.
func (r *runner) calibrate(ctx context.Context) error {
	l, ok := r.Workload.(bench.Calibrator)
	if !ok {
		return nil
	}
	for cell := range r.plan.Cells {
		if r.unsupported[cell].reason != "" || r.unrunnable[cell] != "" {
			continue
		}
		r.observe(SetUpBegan{cell})
		limited, cancel := context.WithTimeout(ctx, setupTime)
		r.setUpFailed(cell, l.Calibrate(limited, r.task(cell)))
		cancel()
		if r.interrupted(ctx) {
			return ErrInterrupted
		}
	}
	return nil
}

// setUpFailed keeps an error of Setup or Learn, because of which the trials of a cell are
// skipped. If it is ErrUnsupported, the cell is as unsupported as if Check had said so.
func (r *runner) setUpFailed(cell int, err error) {
	switch {
	case err == nil:
	case errors.Is(err, bench.ErrUnsupported):
		r.unsupported[cell] = unsupportedCell{reason: err.Error()}
	default:
		r.unrunnable[cell] = "its fixture could not be set up: " + err.Error()
	}
}

// setUp makes the fixture that the trials of a cell need, unless it exists.
func (r *runner) setUp(ctx context.Context, cell int) {
	f, ok := r.Workload.(bench.Fixturer)
	key := r.fixtures.keys[cell]
	if !ok || r.unsupported[cell].reason != "" || r.givenUp(cell) != "" || r.fixtures.markUsed(key) {
		return
	}
	err, again := r.fixtures.setUpErrs[key]
	if err == nil {
		r.observe(SetUpBegan{cell})
		r.awaitHealthy(ctx, r.plan.Cells[cell].Engine)
		r.makeRoom(ctx)
		began := r.Clock()
		err = r.makeFixture(ctx, f, cell)
		if !again { // the budget is for trials, and for making again what Alive evicted
			r.fixtures.setUpTime += r.Clock() - began
		}
		r.fixtures.setUpErrs[key] = err
	}
	r.setUpFailed(cell, err)
}

func (r *runner) makeFixture(ctx context.Context, f bench.Fixturer, cell int) error {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	made, err := f.Setup(ctx, r.task(cell))
	switch key := r.fixtures.keys[cell]; {
	case err != nil:
		return err
	case made == nil:
		r.fixtures.unneeded[key] = true
	default:
		r.fixtures.live = append(r.fixtures.live, &fixture{made, key, r.fixtures.uses})
	}
	return nil
}

// makeRoom removes the least recently used fixtures until there is room for one more.
func (r *runner) makeRoom(ctx context.Context) {
	k, ok := r.Workload.(bench.FixtureKeyer)
	if !ok || k.MaxAlive() == 0 {
		return
	}
	all := &r.fixtures
	for len(all.live) >= k.MaxAlive() {
		oldest := slices.MinFunc(all.live, func(a, b *fixture) int { return a.used - b.used })
		all.live = slices.DeleteFunc(all.live, func(one *fixture) bool { return one == oldest })
		if removeIn(ctx, oldest.Remove) != nil {
			all.unremoved = append(all.unremoved, oldest.Fixture)
		}
	}
}

// removeFixtures removes all fixtures, even after the run was interrupted.
func (r *runner) removeFixtures(ctx context.Context) error {
	for _, one := range r.fixtures.live {
		r.fixtures.unremoved = append(r.fixtures.unremoved, one.Fixture)
	}
	var errs []error
	for _, f := range r.fixtures.unremoved {
		if err := removeIn(ctx, f.Remove); err != nil {
			errs = append(errs, fmt.Errorf("remove a fixture: %w", err))
		}
	}
	if err := removeIn(ctx, r.common.Remove); err != nil {
		errs = append(errs, fmt.Errorf("remove a fixture that cells share: %w", err))
	}
	return errors.Join(errs...)
}

func removeIn(ctx context.Context, remove func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	return remove(ctx)
}
