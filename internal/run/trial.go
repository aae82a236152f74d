package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/schedule"
)

// grace is how long a trial may run past its time limit, for its clean-up.
const grace = 2*cleanupTime + 10*time.Second

// errStuck is the error of a trial that does not end: its goroutine still uses the
// engine, so no later measurement could be trusted.
var errStuck = errors.New("did not return after its time limit; the run cannot continue while it hangs")

// trial runs one trial and returns its one sample; turns is that of a trial that takes turns, or nil. The
// error, if any, says why the run cannot continue.
func (r *runner) trial(ctx context.Context, t bench.Trial, turns *member) (bench.Sample, error) {
	s, err := r.anyTrial(ctx, t, turns)
	if t.Traced {
		s.MarkTraced()
	}
	return s, err
}

// anyTrial is trial for timed and traced trials alike.
func (r *runner) anyTrial(ctx context.Context, t bench.Trial, turns *member) (bench.Sample, error) {
	began, spent := r.Clock(), r.Clock
	if turns != nil {
		spent = turns.now
	}
	beganSpending := spent()
	s := bench.Sample{Trial: t, Began: r.Now().UTC()}
	if no := r.unsupported[t.Cell]; no.reason != "" {
		s.Outcome, s.Operation, s.Reason = bench.Unsupported, no.operation, bench.Reason(no.reason)
		return s, nil
	}
	if why := r.givenUp(t.Cell); why != "" {
		s.Outcome, s.Reason = bench.Skipped, bench.Reason(why)
		return s, nil
	}
	r.observe(TrialBegan{t})
	r.awaitHealthy(ctx, r.plan.Cells[t.Cell].Engine)
	limited, cancel := r.limited(ctx, turns)
	m := newMeter(limited, r.Clock, r.plan.OpTime, r.Header.Metrics)
	m.known, m.plant, m.traced = r.notes, r.plan.PlantedIn(t.Cell), t.Traced
	r.noteWhole(m, t.Cell)
	wait := r.await
	if turns != nil { // rounds wait for it
		wait = func(_ *meter, trial func() error) error { return trial() }
	}
	err := wait(m, func() error {
		defer r.suspendFixture(m, t.Cell)
		if err := r.ready(ctx, m.ctx, t); err != nil {
			return err
		}
		return r.measure(m, t, began, turns)
	})
	if turns.isLeft() {
		return s, nil // nobody reads it
	}
	r.tellHooks()
	m.conclude(&s, ctx, err)
	m.stop()
	if s.Outcome == bench.Failed && errors.Is(err, bench.ErrUnsupported) {
		// The engine does not support the cell, and will not later.
		if s.Operation == opPrepare { // the outcome says already that nothing was measured
			s.Reason = strings.TrimPrefix(s.Reason, s.Operation+": ")
		}
		s.Outcome, r.unsupported[t.Cell] = bench.Unsupported, unsupportedCell{s.Operation, s.Reason}
	}
	if turns != nil && errors.Is(err, bench.ErrNoTurns) && m.cleanup == nil {
		turns.refused = err
	}
	cancel()
	s.Elapsed = spent() - beganSpending
	if s.Outcome == bench.OK {
		s.Trace = r.watch.trace(m.stageEvents(began))
	}
	var fatal *fatalError
	if errors.As(err, &fatal) {
		return s, fatal
	}
	return s, nil
}

// noteWhole marks the sample of a trial that runs whole though the plan has its cell take turns.
func (r *runner) noteWhole(m *meter, cell int) {
	own := r.turns[cell]
	if own == nil || !own.off {
		return
	}
	m.Note(bench.NoteWhole)
	if own.limited {
		m.Note(bench.NotePeriodicLimit)
	}
}

// limited returns a context that ends when the trial has used its time.
func (r *runner) limited(ctx context.Context, turns *member) (context.Context, context.CancelFunc) {
	if turns == nil {
		return context.WithTimeoutCause(ctx, r.plan.TrialTime, errTrialLimit)
	}
	ctx, end := context.WithCancelCause(ctx)
	turns.left = r.plan.TrialTime + turns.now() // it may have waited for its engine
	context.AfterFunc(ctx, func() { close(turns.over) })
	turns.limit = time.AfterFunc(r.plan.TrialTime, func() { end(errTrialLimit) })
	return ctx, func() { turns.limit.Stop(); end(nil) }
}

// opPrepare is what comes before the timed part, as failures name it.
const opPrepare = "preparation"

// A unsupportedCell says why an engine does not support a cell, and in which operation it said
// so; empty if that was known before the trial.
type unsupportedCell struct{ operation, reason string }

// fatalError is an error after which the run cannot continue.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// ready does everything before the timed part: hooks, the fixture's reset, the engine's
// preparation and the washout, in this order.
func (r *runner) ready(run, limited context.Context, t bench.Trial) error {
	cell := r.plan.Cells[t.Cell]
	if err := r.hooks(run, bench.BeforeTrial, cell.Engine); err != nil {
		return &fatalError{err}
	}
	if f := r.fixtures.of(t.Cell); f != nil {
		if err := f.Reset(limited); err != nil {
			return &bench.OpError{Op: opPrepare, Err: err}
		}
	}
	if err := r.Engines[cell.Engine].Prepare(limited, cell.Spec); err != nil {
		return &bench.OpError{Op: opPrepare, Err: err}
	}
	collectGarbage()
	r.settle(limited)
	return limited.Err()
}

// settle is the washout, if there is one.
func (r *runner) settle(ctx context.Context) {
	if r.plan.Washout > 0 {
		r.Machine.Settle(ctx, r.plan.Washout)
	}
}

// suspendFixture undoes what the fixture did for this trial.
func (r *runner) suspendFixture(m *meter, cell int) {
	if f, ok := r.fixtures.of(cell).(bench.FixtureSuspender); ok {
		m.Cleanup(f.Suspend)
	}
}

// measure runs the workload while the instruments watch.
func (r *runner) measure(m *meter, t bench.Trial, began time.Duration, turns *member) error {
	task := r.task(t.Cell)
	task.Fixture, task.Seed = r.fixtures.of(t.Cell), schedule.Seed(r.plan.Seed, t.Block)
	if task.Traced = t.Traced; t.Traced {
		task.Turns = nil
	}
	run := func() error { return r.Workload.Run(m.ctx, task, m) }
	if far, ok := bench.As[bench.Remoter](task.Engine); ok {
		defer m.endWith(far.Lost())()
	}
	spent := r.Clock
	if turns != nil {
		spent = turns.watchedTime
	}
	if _, inline := bench.As[bench.InProcessEngine](task.Engine); !inline {
		timed := run
		run = func() error {
			u := turns.usageOr(&r.usage)
			u.begin(r.Clock)
			defer u.end(r.Clock)
			return timed()
		}
	}
	stopped := r.stopped()
	r.watch.begin(t, began)
	turns.watching(true)
	from := spent()
	err := run()
	if turns.isLeft() {
		return errStuck // the run is ending: nothing that belongs to it may be touched
	}
	m.counted = spent() - from
	turns.watching(false)
	r.watch.end(m)
	if err == nil && r.stopped() != stopped {
		err = errStopped
	}
	return err
}

// errStopped is the error of a trial whose times include a pause of tare itself.
var errStopped = errors.New("tare was stopped during the trial (SIGSTOP or Ctrl-Z), so its times mean nothing")

func (r *runner) stopped() int64 {
	if r.Stopped == nil {
		return 0
	}
	time.Sleep(time.Millisecond) // lets the goroutine that counts SIGCONT run
	return r.Stopped()
}

// await runs a trial, and waits for grace after its time limit. The trial runs in a
// goroutine of its own so that the runner can abandon one that never returns.
func (r *runner) await(m *meter, trial func() error) error {
	done := make(chan error, 1)
	go func() { done <- trial() }()
	select {
	case err := <-done:
		return err
	case <-m.ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		m.abandon()
		return &fatalError{fmt.Errorf("the trial %w", errStuck)}
	}
}

// task returns the Task of a cell, without the fixture.
func (r *runner) task(cell int) bench.Task {
	c := r.plan.Cells[cell]
	params := make(map[string]string)
	for _, p := range r.Workload.Params() {
		params[p.Name] = p.Default
	}
	maps.Copy(params, c.Params)
	t := bench.Task{
		Engine: r.watch.engine(r.Engines[c.Engine]), Spec: c.Spec, Params: params, Client: r.Client,
		Run: r.Header.ID, Dir: r.Dir, Cell: cell, Seed: r.plan.Seed, Common: r.common, OpTime: r.plan.OpTime,
		Condition:    c.Condition,
		PartBegins:   func(part string) { r.observe(PartBegan{cell, part}) },
		EarlierValue: func(metric string) (float64, bool) { return r.earlier(cell, metric) },
	}
	if own := r.turns[cell]; own != nil { // not a nil pointer in an interface
		t.Turns = own
	}
	return t
}

// earlier returns the last value of a metric in a cell before the run was resumed.
func (r *runner) earlier(cell int, metric string) (float64, bool) {
	i := slices.IndexFunc(r.Header.Metrics, func(m bench.Metric) bool { return m.Name == metric })
	for _, s := range slices.Backward(r.Done) {
		if v, ok := s.Value(i); ok && s.Trial.Cell == cell {
			return v, true
		}
	}
	return 0, false
}
