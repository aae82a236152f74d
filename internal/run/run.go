// Package run executes the trials of a schedule. It owns the clock, the time
// limits, warm-up, washout and clean-up, and makes exactly one sample for each
// trial that began. It stores samples between trials and reports progress, never
// while something is timed.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/schedule"
)

// maxFailures is the number of failed trials in a row after which a cell is given up: an
// engine that hangs must not use up the time of the others.
const maxFailures = 3

// ErrInterrupted is the error of a run that the user ended early. Its samples are
// stored, and the run can be resumed.
var ErrInterrupted = errors.New("interrupted")

// Options are the inputs of Run. Every field is required unless its comment says
// otherwise.
type Options struct {
	Header   bench.Header // its Metrics are the workload's, followed by those of Instruments
	Workload bench.Workload
	Engines  map[string]bench.Engine // by name; at least those that the plan's cells name
	Client   bench.Engine            // plain processes of this host, for load generators; see bench.Task
	Dir      string                  // of the run; see bench.Task
	Writer   bench.RunWriter
	Machine  Machine
	Clock    func() time.Duration // CLOCK_MONOTONIC; see Monotonic
	Now      func() time.Time     // the wall clock

	// Instruments watch each trial. They begin in this order and end in reverse, so the
	// last one is closest to the timed part. There may be none.
	Instruments []bench.Instrument
	// Stopped returns how often this process has continued after a stop, as with
	// Ctrl-Z. Nil means never.
	Stopped func() int64
	// Done are the samples that a resumed run already has; the run continues after them.
	Done []bench.Sample
	// Extended is the first trial of the run's last extension, which has at least one block; 0 if
	// there is none.
	Extended int
	// Precision ends the run when it is reached; may be nil.
	Precision Precision
	// Barrier is called before each block; nil = blocks begin at once. It is told why the run would
	// end now, empty if it would not, and returns why it ends, empty to begin the block. So several
	// runs can begin their blocks together, and end together.
	Barrier func(ctx context.Context, block int, reason bench.StopReason) (bench.StopReason, error)
	// Interrupt, once closed, ends the run after the current trial, or the block if its cells take turns. Ending the
	// context as well ends that trial too. It may be nil.
	Interrupt <-chan struct{}
	// Observe receives events, between trials and between long parts of one; may be nil.
	Observe func(Event)
	// Command runs the argv of a hook; nil refuses such hooks.
	Command func(ctx context.Context, argv []string) error
}

// A Machine is the part of the host that a run needs.
type Machine interface {
	// Settle waits until the effects of the last trial are gone, or the limit is over.
	Settle(ctx context.Context, limit time.Duration)
	// DropCaches empties the page cache, dentries and inodes.
	DropCaches(ctx context.Context) error
}

// A Precision says when a run knows enough to stop.
type Precision interface {
	Add(s bench.Sample)
	// Reached is called after each block.
	Reached() bool
}

// An Event is something that happened in a run.
type Event interface{ event() }

// The events of a run, in the order in which they come.
type (
	// Began is the first event.
	Began struct {
		Trials int // in the whole schedule, with those already done
		Done   int
	}
	// SetUpBegan comes before a Setup or Learn of the workload for a cell, if it has
	// any: before the first trial, or right before one.
	SetUpBegan struct{ Cell int }
	// TrialBegan comes before each trial that is not skipped, and before the rehearsal of one after traced
	// trials.
	TrialBegan struct{ Trial bench.Trial }
	// PartBegan comes within a trial, between parts that take long, when nothing is timed.
	PartBegan struct {
		Cell int
		Part string // its name, or several
	}
	// TurnsTaken comes between turns, about once a second: while cells take turns their trials end together.
	TurnsTaken struct{ Block int }
	// TrialEnded comes after each sample was stored.
	TrialEnded struct{ Sample bench.Sample }
	// Ended is the last event, even if the run was interrupted.
	Ended struct{ Reason bench.StopReason } // empty if the run did not finish
)

func (Began) event()      {}
func (SetUpBegan) event() {}
func (TrialBegan) event() {}
func (PartBegan) event()  {}
func (TurnsTaken) event() {}
func (TrialEnded) event() {}
func (Ended) event()      {}

// Run executes the trials that are not done yet, removes every fixture, and finishes
// the stored run. Its error is ErrInterrupted, or says why the run could not continue;
// the samples so far stay stored. Run does not close the engines.
func Run(ctx context.Context, o Options) (bench.End, error) {
	r := newRunner(o)
	defer quiet()()
	r.observe(Began{Trials: len(r.trials), Done: len(o.Done)})
	reason, err := r.all(ctx)
	if err != nil {
		r.observe(Ended{})
		return bench.End{}, err
	}
	end := bench.End{Time: o.Now().UTC(), Reason: reason, Overhead: r.usage.overhead(r.nullOperation)}
	if err := o.Writer.Finish(context.WithoutCancel(ctx), end); err != nil {
		return bench.End{}, fmt.Errorf("store the end of the run: %w", err)
	}
	r.observe(Ended{Reason: reason})
	return end, nil
}

// runner is one execution of Run.
type runner struct {
	Options
	plan   bench.Plan
	trials []bench.Trial

	fixtures    fixtures
	common      *bench.Common
	failures    []int                    // failed trials in a row, by cell
	lastReason  []string                 // the reason of the last failure, by cell
	unrunnable  []string                 // why a cell cannot run at all, by cell
	unsupported []unsupportedCell        // why the engine does not support a cell, by cell
	unhealthy   map[string]time.Duration // until when the runner waits for an engine, on the run's clock, by its name
	spent       time.Duration            // of the budget, in earlier parts of a resumed run

	turns []*turns // by cell: nil if it takes none

	ran           hookLog
	notes         map[string]bool // codes of those that the workload may attach
	watch         watch
	usage         usage
	nullOperation time.Duration
}

func newRunner(o Options) *runner {
	n := len(o.Header.Plan.Cells)
	r := &runner{
		Options: o, plan: o.Header.Plan,
		trials:      schedule.Trials(o.Header.Schedule, o.Header.Plan.Warmup),
		common:      new(bench.Common),
		failures:    make([]int, n),
		lastReason:  make([]string, n),
		unrunnable:  make([]string, n),
		unsupported: make([]unsupportedCell, n),
		unhealthy:   map[string]time.Duration{},
		notes:       map[string]bool{},
		watch:       newWatch(o.Instruments),
	}
	r.turns = make([]*turns, n)
	for cell := range r.plan.Cells {
		if r.plan.TakesTurnsIn(r.plan.Cells[cell].Condition) {
			r.turns[cell] = &turns{}
		}
	}
	r.fixtures = newFixtures(o, r.task)
	for _, n := range bench.NotesOf(o.Workload) {
		r.notes[n.Code] = true
	}
	for _, s := range o.Done {
		r.count(s)
		if slices.Contains(s.Notes, bench.NoteWhole) {
			r.runWhole(r.plan.Cells[s.Trial.Cell].Condition)
		}
		if own := r.turns[s.Trial.Cell]; own != nil && slices.Contains(s.Notes, bench.NotePeriodicLimit) {
			own.limited = true
		}
		r.spent += s.Elapsed
		if r.Precision != nil {
			r.Precision.Add(s)
		}
	}
	return r
}

func (r *runner) observe(e Event) {
	if r.Observe != nil {
		r.Observe(e)
	}
}

// all runs hooks, fixtures and trials, and says why it stopped.
func (r *runner) all(ctx context.Context) (reason bench.StopReason, err error) {
	if err := r.hooks(ctx, bench.BeforeRun, ""); err != nil {
		return "", err
	}
	// However the run ends, its fixtures are removed and the last hooks run.
	defer func() {
		err = errors.Join(err, r.removeFixtures(ctx), r.hooks(context.WithoutCancel(ctx), bench.AfterRun, ""))
	}()
	r.checkCells(ctx)
	if err := r.calibrate(ctx); err != nil {
		return "", err
	}
	r.nullOperation = nullOperation(r.Clock)
	reason, err = r.blocks(ctx)
	return reason, err
}

// checkCells asks the workload which cells cannot run.
func (r *runner) checkCells(ctx context.Context) {
	for cell := range r.plan.Cells {
		err := r.checkCell(ctx, cell)
		switch {
		case errors.Is(err, bench.ErrUnsupported):
			r.unsupported[cell] = unsupportedCell{reason: err.Error()}
		case err != nil:
			r.unrunnable[cell] = err.Error()
		}
	}
}

func (r *runner) checkCell(ctx context.Context, cell int) error {
	task := r.task(cell)
	err := cmp.Or(bench.CheckRemote(r.Workload, task.Engine), bench.CheckReach(r.Workload, task.Engine, task.Spec))
	if err != nil {
		return err
	}
	return r.Workload.Check(ctx, task)
}

// Refused returns, by cell, why a run of this plan would measure nothing: the workload or
// the engine refuses every cell. It returns nil at the first cell that is not refused;
// that cell is then prepared, as before its first trial.
func Refused(ctx context.Context, o Options) []error {
	r := newRunner(o)
	ctx, cancel := context.WithTimeoutCause(ctx, r.plan.TrialTime, errTrialLimit)
	defer cancel()
	var why []error
	for cell, c := range r.plan.Cells {
		err := r.checkCell(ctx, cell)
		if err == nil {
			err = r.Engines[c.Engine].Prepare(ctx, c.Spec)
		}
		if !errors.Is(err, bench.ErrUnsupported) {
			return nil
		}
		why = append(why, err)
	}
	return why
}

// OnlyBaselines returns, by cell, why a run of this plan would compare nothing: the workload refuses
// every cell that would be compared with a baseline. An error is nil for a cell that can run. It
// returns nil if a comparison remains, or if the plan has none.
func OnlyBaselines(ctx context.Context, o Options) []error {
	r := newRunner(o)
	why, refused := make([]error, len(r.plan.Cells)), false
	for cell, c := range r.plan.Cells {
		if c.Baseline || c.Control {
			continue
		}
		if why[cell] = r.checkCell(ctx, cell); !errors.Is(why[cell], bench.ErrUnsupported) {
			return nil
		}
		refused = true
	}
	if !refused {
		return nil
	}
	return why
}

// blocks runs the trials block by block, until there is a reason to stop before the
// next block.
func (r *runner) blocks(ctx context.Context) (bench.StopReason, error) {
	began := r.Clock()
	for i := len(r.Done); i < len(r.trials); {
		t := r.trials[i]
		first := i == 0 || r.trials[i-1].Block != t.Block
		var reason bench.StopReason
		if first && i > 0 && i != r.Extended {
			reason = r.stop(t.Block, r.spent+r.Clock()-began-r.fixtures.setUpTime)
		}
		if r.Barrier != nil && (first || i == len(r.Done)) {
			var err error
			if reason, err = r.Barrier(ctx, t.Block, reason); err != nil {
				return "", err
			}
		}
		if reason != "" {
			return reason, nil
		}
		if i > len(r.Done) && r.trials[i-1].Traced && !t.Traced {
			if err := r.rehearse(ctx, restOfBlock(r.trials[i:])); err != nil {
				return "", err
			}
		}
		// A resumed run can begin in the middle of a block.
		if first || i == len(r.Done) {
			if err := r.hooks(ctx, bench.BeforeBlock, ""); err != nil {
				return "", err
			}
		}
		next := r.trials[i : i+1]
		if all := restOfBlock(r.trials[i:]); slices.ContainsFunc(all, r.takesTurns) {
			next = all
		}
		for _, one := range next {
			if !r.interrupted(ctx) {
				r.setUp(ctx, one.Cell)
			}
		}
		if r.interrupted(ctx) {
			return "", ErrInterrupted
		}
		if err := r.runAndStore(ctx, next); err != nil {
			return "", err
		}
		i += len(next)
	}
	return bench.StopBlocks, nil
}

// rehearse performs the first of the next trials whose cell is not skipped, and throws its sample away. Trials are
// some percent slower after the pause in which a traced one is attached to and its events are read: this one takes
// that, so that no timed one does. It comes before the hooks of the block, which may make what a trial would spoil,
// such as cold caches.
func (r *runner) rehearse(ctx context.Context, next []bench.Trial) error {
	i := slices.IndexFunc(next, func(t bench.Trial) bool {
		return r.unsupported[t.Cell].reason == "" && r.givenUp(t.Cell) == ""
	})
	if i < 0 {
		return nil
	}
	var err error
	if !r.interrupted(ctx) {
		r.setUp(ctx, next[i].Cell)
	}
	if !r.interrupted(ctx) {
		var s bench.Sample
		s, err = r.trial(ctx, next[i], nil)
		r.markUnhealthy(s)
	}
	if err == nil && r.interrupted(ctx) {
		return ErrInterrupted
	}
	return err
}

// restOfBlock returns the trials of the same block as the first: the timed ones, or the traced ones after
// them.
func restOfBlock(trials []bench.Trial) []bench.Trial {
	i := slices.IndexFunc(trials, func(t bench.Trial) bool {
		return t.Block != trials[0].Block || t.Traced != trials[0].Traced
	})
	if i < 0 {
		return trials
	}
	return trials[:i]
}

// takesTurns reports whether a trial takes turns with others of its block.
func (r *runner) takesTurns(t bench.Trial) bool {
	own := r.turns[t.Cell]
	return own != nil && !own.off && !t.Traced
}

// runAndStore runs one trial, or several that take turns.
func (r *runner) runAndStore(ctx context.Context, trials []bench.Trial) error {
	var samples []bench.Sample
	var turning []bench.Trial
	var err error
	for i, t := range trials { // those that run whole come first, while nothing else is alive
		if r.takesTurns(t) {
			turning = append(turning, t)
			continue
		}
		if i > 0 && r.interrupted(ctx) {
			turning = nil
			break
		}
		var s bench.Sample
		s, err = r.trial(ctx, t, nil)
		if samples = append(samples, s); err != nil {
			break
		}
	}
	if len(turning) > 0 && err == nil {
		var more []bench.Sample
		more, err = r.together(ctx, turning)
		samples = append(samples, more...)
	}
	slices.SortFunc(samples, func(a, b bench.Sample) int { return a.Trial.Seq - b.Trial.Seq })
	for i, s := range samples {
		if s.Trial.Seq != trials[i].Seq { // the run ends, and trials before this one did not begin
			break
		}
		if storeErr := r.store(ctx, s); storeErr != nil {
			return errors.Join(storeErr, err)
		}
	}
	return err
}

func (r *runner) interrupted(ctx context.Context) bool {
	select {
	case <-r.Interrupt:
		return true
	default:
		return ctx.Err() != nil
	}
}

// stop returns why the run ends before the given block, or nothing. It never looks at
// which cell is better: stopping on significance would turn noise into differences.
func (r *runner) stop(block int, spent time.Duration) bench.StopReason {
	switch {
	case r.allGivenUp():
		return bench.StopAllFailed
	case r.plan.Budget > 0 && spent >= r.plan.Budget && block > 0: // a warm-up alone is no result
		return bench.StopBudget
	case r.Precision != nil && block >= r.plan.MinBlocks && r.Precision.Reached():
		return bench.StopPrecision
	default:
		return ""
	}
}

// store appends a sample, even after the run was canceled: every trial that began has
// a sample.
func (r *runner) store(ctx context.Context, s bench.Sample) error {
	r.count(s)
	r.markUnhealthy(s)
	if err := r.Writer.Append(context.WithoutCancel(ctx), s); err != nil {
		return fmt.Errorf("store trial %d: %w", s.Trial.Seq, err)
	}
	if r.Precision != nil {
		r.Precision.Add(s)
	}
	r.observe(TrialEnded{s})
	return nil
}

// count keeps the number of failures in a row. What fails only while it is traced gives up no cell.
func (r *runner) count(s bench.Sample) {
	if s.Trial.Traced {
		return
	}
	switch c := s.Trial.Cell; s.Outcome {
	case bench.OK:
		r.failures[c] = 0
	case bench.Failed, bench.TimedOut:
		r.failures[c]++
		r.lastReason[c] = s.Reason
	}
}

// givenUp returns why the trials of a cell are skipped, or nothing.
func (r *runner) givenUp(cell int) string {
	if r.unrunnable[cell] != "" {
		return r.unrunnable[cell]
	}
	if r.failures[cell] >= maxFailures {
		return fmt.Sprintf(
			"given up after %d failed trials in a row; last failure: %s", r.failures[cell], r.lastReason[cell])
	}
	return ""
}

func (r *runner) allGivenUp() bool {
	for i, c := range r.plan.Cells {
		if !c.Control && r.givenUp(i) == "" && r.unsupported[i].reason == "" {
			return false
		}
	}
	return true
}
