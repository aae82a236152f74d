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
	keys  []string         // by cell
	there []*fixture       // existing ones, in order of making
	none  map[string]bool  // keys of cells that need none
	tried map[string]error // by key: nil if it was ever made, else why it could not be
	left  []bench.Fixture  // no longer needed, but their removal failed
	uses  int
	took  time.Duration // time for making each the first time
}

// A fixture is one that exists.
type fixture struct {
	bench.Fixture
	key  string
	used int // the larger, the later
}

func newFixtures(o Options, task func(cell int) bench.Task) fixtures {
	f := fixtures{none: map[string]bool{}, tried: map[string]error{}}
	for cell := range o.Header.Plan.Cells {
		key := strconv.Itoa(cell)
		if keyer, ok := o.Workload.(bench.Keyer); ok {
			key = keyer.Key(task(cell))
		}
		f.keys = append(f.keys, key)
	}
	return f
}

// of returns the fixture of a cell; nil if it has none.
func (f *fixtures) of(cell int) bench.Fixture {
	i := slices.IndexFunc(f.there, func(one *fixture) bool { return one.key == f.keys[cell] })
	if i < 0 {
		return nil
	}
	return f.there[i].Fixture
}

// use notes that a trial is about to use the fixture with a key. It reports whether the
// fixture exists, or is not needed.
func (f *fixtures) use(key string) bool {
	f.uses++
	for _, one := range f.there {
		if one.key == key {
			one.used = f.uses
			return true
		}
	}
	return f.none[key]
}

// learn lets a Learner measure what it must know before the first trial.
func (r *runner) learn(ctx context.Context) error {
	l, ok := r.Workload.(bench.Learner)
	if !ok {
		return nil
	}
	for cell := range r.plan.Cells {
		if r.absent[cell].why != "" || r.broken[cell] != "" {
			continue
		}
		r.observe(SetUpBegan{cell})
		limited, cancel := context.WithTimeout(ctx, setupTime)
		r.notSetUp(cell, l.Learn(limited, r.task(cell)))
		cancel()
		if r.interrupted(ctx) {
			return ErrInterrupted
		}
	}
	return nil
}

// notSetUp keeps an error of Setup or Learn, because of which the trials of a cell are
// skipped. If it is ErrUnsupported, the cell is as unsupported as if Check had said so.
func (r *runner) notSetUp(cell int, err error) {
	switch {
	case err == nil:
	case errors.Is(err, bench.ErrUnsupported):
		r.absent[cell] = refusal{why: err.Error()}
	default:
		r.broken[cell] = "its fixture could not be set up: " + err.Error()
	}
}

// setUp makes the fixture that the trials of a cell need, unless it exists.
func (r *runner) setUp(ctx context.Context, cell int) {
	f, ok := r.Workload.(bench.Fixturer)
	key := r.fixtures.keys[cell]
	if !ok || r.absent[cell].why != "" || r.givenUp(cell) != "" || r.fixtures.use(key) {
		return
	}
	err, again := r.fixtures.tried[key]
	if err == nil {
		r.observe(SetUpBegan{cell})
		r.awaitEngine(ctx, r.plan.Cells[cell].Engine)
		r.makeRoom(ctx)
		began := r.Clock()
		err = r.makeFixture(ctx, f, cell)
		if !again { // the budget is for trials, and for making again what Alive evicted
			r.fixtures.took += r.Clock() - began
		}
		r.fixtures.tried[key] = err
	}
	r.notSetUp(cell, err)
}

func (r *runner) makeFixture(ctx context.Context, f bench.Fixturer, cell int) error {
	ctx, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	made, err := f.Setup(ctx, r.task(cell))
	switch key := r.fixtures.keys[cell]; {
	case err != nil:
		return err
	case made == nil:
		r.fixtures.none[key] = true
	default:
		r.fixtures.there = append(r.fixtures.there, &fixture{made, key, r.fixtures.uses})
	}
	return nil
}

// makeRoom removes the least recently used fixtures until there is room for one more.
func (r *runner) makeRoom(ctx context.Context) {
	k, ok := r.Workload.(bench.Keyer)
	if !ok || k.Alive() == 0 {
		return
	}
	all := &r.fixtures
	for len(all.there) >= k.Alive() {
		oldest := slices.MinFunc(all.there, func(a, b *fixture) int { return a.used - b.used })
		all.there = slices.DeleteFunc(all.there, func(one *fixture) bool { return one == oldest })
		if removeIn(ctx, oldest.Remove) != nil {
			all.left = append(all.left, oldest.Fixture)
		}
	}
}

// removeFixtures removes all fixtures, even after the run was interrupted.
func (r *runner) removeFixtures(ctx context.Context) error {
	for _, one := range r.fixtures.there {
		r.fixtures.left = append(r.fixtures.left, one.Fixture)
	}
	var errs []error
	for _, f := range r.fixtures.left {
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
