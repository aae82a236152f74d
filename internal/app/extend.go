package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/schedule"
	"github.com/tare-bench/tare/internal/text/unit"
)

// More is what a finished run is extended by. At least one of its limits is positive; the
// one that is reached first ends the run.
type More struct {
	Blocks int           // so many more; 0 = as many as the budget allows
	Budget time.Duration // after so much more time no block begins; 0 = no limit
}

// room is how many blocks a budget alone may be used for at least: as many as an
// experiment has that says nothing about it.
const room = 500

// Extend goes on with a stored run that is finished, under its plan and seed. It returns
// as Resume does. Whoever extends a run has seen what it said, so its verdicts allow for
// one more look from then on.
func (a *App) Extend(
	ctx context.Context, s bench.Store, stored *bench.Run, more More, o Options,
) (id string, err error) {
	e, err := extension(stored, more)
	if err != nil {
		return "", err
	}
	return a.takeUp(ctx, s, stored, e, o)
}

// Extensible opens the run that is meant and can be extended: by its name as FindRun takes
// it or, where that is empty, the newest one.
func Extensible(ctx context.Context, s bench.Store, name string) (*bench.Run, error) {
	if name == "" {
		name = bench.LastRun
	}
	r, err := OpenRun(ctx, s, name)
	if err != nil {
		return nil, err
	}
	id := r.Header.ID
	switch {
	case r.Header.Imported:
		err := fmt.Errorf("run %s was imported: it can only be extended on the machine where it was measured", id)
		return nil, &Problem{Kind: Imported, Err: err, Run: id}
	case r.Header.Joint != nil:
		err := fmt.Errorf("run %s was measured together with those of other hosts: such runs cannot be extended", id)
		return nil, &Problem{Kind: NotAlone, Err: err, Run: id}
	case r.End == nil:
		err := fmt.Errorf("run %s is not finished: only a finished run can be extended", id)
		return nil, &Problem{Kind: Unfinished, Err: err, Run: id}
	case r.End.Reason == bench.StopAllFailed:
		err := fmt.Errorf("run %s cannot be extended: no cell of it could go on", id)
		return nil, &Problem{Kind: NothingMeasured, Err: err, Run: id}
	}
	return r, nil
}

// extension is how a finished run goes on. Blocks that its seed gives have been scheduled
// already as far as its limits went; the others follow from the same seed.
func extension(stored *bench.Run, more More) (*bench.Extension, error) {
	if more.Blocks < 0 || more.Budget < 0 || more == (More{}) {
		return nil, errors.New("a run is extended by a number of blocks, by a time, or by both")
	}
	h := stored.Extended().Header
	done := 0 // blocks
	if n := len(stored.Samples); n > 0 {
		done = stored.Samples[n-1].Trial.Block + 1
	}
	if max(more.Blocks, 1) > bench.MaxBlocks-done {
		return nil, fmt.Errorf("run %s has %s: it can be extended to %d, and not by %d",
			h.ID, unit.FormatCount(done, "block"), bench.MaxBlocks, max(more.Blocks, 1))
	}
	e := &bench.Extension{MaxBlocks: done + more.Blocks, After: *stored.End}
	if more.Budget > 0 {
		before := spent(stored.Samples)
		e.Budget = before + min(more.Budget, math.MaxInt64-before)
	}
	if more.Blocks == 0 {
		e.MaxBlocks = max(h.Plan.MaxBlocks, done+min(blocksWithin(more.Budget, stored), bench.MaxBlocks-done))
	}
	plan := h.Plan
	plan.MaxBlocks = max(e.MaxBlocks, len(h.Schedule)-plan.Warmup)
	e.Schedule = schedule.Blocks(plan)[len(h.Schedule):]
	return e, nil
}

// TooFewMore warns of an extension that ends with too few blocks for its look to tell any
// difference from chance, however large. Nil where there are enough.
func TooFewMore(s Session) *bench.Warning {
	plan := s.Header.Plan
	_, need, comparisons := analysis.Decisive(plan, s.Header.Metrics, s.Look)
	done := TimedTrials(s.Done)/len(plan.Cells) - plan.Warmup
	have := plan.MaxBlocks
	if took := spent(s.Done); plan.Budget > 0 && took > 0 && done > 0 {
		have = min(have, done+int(math.Ceil(float64(plan.Budget-took)/float64(took)*float64(done))))
	}
	if have >= need {
		return nil
	}
	return &bench.Warning{
		Code: analysis.CodeFewBlocks,
		Text: fmt.Sprintf(
			"possibly too few blocks for any verdict: %s in all, but up to %s of a run that is extended need up to %d",
			unit.FormatCount(have, "block"), unit.FormatCount(comparisons, "comparison"), need,
		),
		Hint: fmt.Sprintf("--blocks %d, or more time", need-done),
	}
}

// spent is what a run has used of a budget when it is taken up again.
func spent(done []bench.Sample) (sum time.Duration) {
	for _, s := range done {
		sum += s.Elapsed
	}
	return sum
}

// TimedTrials counts the trials that are not traced: one of each cell in a block.
func TimedTrials(all []bench.Sample) (n int) {
	for i := range all {
		if !all[i].Trial.Traced {
			n++
		}
	}
	return n
}

// blocksWithin is more blocks than a time can be enough for, by what blocks of the run took.
func blocksWithin(budget time.Duration, r *bench.Run) int {
	blocks := TimedTrials(r.Samples) / len(r.Header.Plan.Cells)
	if took := spent(r.Samples); took > 0 && blocks > 0 {
		return max(room, int(min(4*float64(budget)/float64(took)*float64(blocks), bench.MaxBlocks)))
	}
	return room
}

// underLimits is the header of a run that goes on, with no more scheduled than its limits allow.
func underLimits(r *bench.Run) bench.Header {
	h := r.Extended().Header
	if n := h.Plan.Warmup + h.Plan.MaxBlocks; r.Looks() > 1 && n < len(h.Schedule) {
		h.Schedule = h.Schedule[:n]
	}
	return h
}

// extendedAt is the first trial of a run's last extension; 0 where there is none.
func extendedAt(r *bench.Run) int {
	for _, again := range slices.Backward(r.Resumptions) {
		if again.Extension != nil {
			return again.Seq
		}
	}
	return 0
}

// wasPrecise reports whether a run has stopped because it was precise: whoever extends it
// then wants more than that.
func wasPrecise(r *bench.Run) bool {
	return slices.ContainsFunc(r.Resumptions, func(again bench.Resumption) bool {
		return again.Extension != nil && again.Extension.After.Reason == bench.StopPrecision
	})
}
