package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// ErrTrialsFailed is how a run ends that is finished and has failed trials.
var ErrTrialsFailed = errors.New("some trials failed")

// unsupported is an error that wraps bench.ErrUnsupported and says so in words of its own.
type unsupported struct{ text string }

func (e *unsupported) Error() string { return e.text }
func (*unsupported) Unwrap() error   { return bench.ErrUnsupported }

// full is an error that wraps syscall.ENOSPC and says so in words of its own.
type full struct{ text string }

func (e *full) Error() string { return e.text }
func (*full) Unwrap() error   { return syscall.ENOSPC }

// nothingMeasured reports whether a run has trials, and none that succeeded.
func nothingMeasured(r *bench.Run) bool {
	return len(r.Samples) > 0 &&
		!slices.ContainsFunc(r.Samples, func(s bench.Sample) bool { return s.Outcome == bench.OK })
}

// outcomeOf is the error for the trials of a run that is stored completely; nil if all
// is well.
func outcomeOf(r *bench.Run) error {
	switch {
	case nothingMeasured(r):
		return nothingMeasuredReason(r)
	case FailedTrials(r) > 0, slices.ContainsFunc(r.Samples, func(s bench.Sample) bool { return s.PartFailed() }):
		return ErrTrialsFailed
	default:
		return baselineUnusable(r)
	}
}

// refusedCells is the error of a plan if no cell of it can run here, or none that would be compared
// with a baseline, as far as that is known before the run; nil if one can. A plan with hooks is not
// refused: they may provide what is missing.
func (p *Planned) refusedCells(ctx context.Context, dir string) error {
	if len(p.Plan.Hooks) > 0 {
		return nil
	}
	o := run.Options{
		Header: bench.Header{ID: p.engineSite.run, Plan: p.Plan}, Workload: p.Workload,
		Engines: p.engines(), Client: p.client(), Dir: dir,
	}
	what, why := "nothing can be measured: ", run.Refused(ctx, o)
	if why == nil {
		what, why = "nothing can be compared: ", run.OnlyBaselines(ctx, o)
	}
	if why == nil {
		return nil
	}
	var reasons []string
	cells := map[string][]string{} // by their reason
	for i, err := range why {
		if c := p.Plan.Cells[i]; err != nil && !c.Control {
			reason := err.Error()
			if cells[reason] == nil {
				reasons = append(reasons, reason)
			}
			cells[reason] = append(cells[reason], c.FullName())
		}
	}
	for i, reason := range reasons {
		names := strings.Join(cells[reason], ", ") + ": "
		reasons[i] = names + strings.TrimPrefix(reason, names) // the engine's name is often the cell's
	}
	text := what + strings.Join(reasons, "\n")
	return &Problem{Kind: NothingPossible, Err: &unsupported{text}}
}

// baselineUnusable is the error of a run that compared nothing because no trial of a baseline
// succeeded; nil if one did.
func baselineUnusable(r *bench.Run) error {
	without := -1
	for i, s := range r.Samples {
		switch cell := r.Header.Plan.Cells[s.Trial.Cell]; {
		case !cell.Baseline:
		case s.Outcome == bench.OK:
			return nil
		case without < 0:
			without = i
		}
	}
	if without < 0 {
		return nil
	}
	text := fmt.Sprintf("run %s compared nothing: %s", r.Header.ID, whyFailed(r, r.Samples[without]))
	return &Problem{Kind: NothingCompared, Err: &unsupported{text}, Run: r.Header.ID}
}

// nothingMeasuredReason is the error of a run that measured nothing. It has the first reason; the
// report has the others.
func nothingMeasuredReason(r *bench.Run) error {
	s, none := firstFailure(r)
	if none {
		text := fmt.Sprintf("run %s measured nothing, and is not kept: %s", r.Header.ID, whyFailed(r, s))
		return &Problem{Kind: NothingPossible, Err: &unsupported{text}, Run: r.Header.ID}
	}
	return &Problem{
		Kind: NothingMeasured, Run: r.Header.ID,
		Err: fmt.Errorf("run %s measured nothing and is not kept, because no trial succeeded: %s",
			r.Header.ID, whyFailed(r, s)),
	}
}

// firstFailure returns the first sample that failed, of a cell that the user
// asked for if there is one, and whether all there is is cells that their engines
// cannot do.
func firstFailure(r *bench.Run) (first bench.Sample, unsupported bool) {
	failed := slices.DeleteFunc(slices.Clone(r.Samples),
		func(s bench.Sample) bool { return s.Outcome == bench.Unsupported })
	unsupported = len(failed) == 0
	if unsupported {
		failed = r.Samples
	}
	asked := slices.IndexFunc(failed, func(s bench.Sample) bool { return !r.Header.Plan.Cells[s.Trial.Cell].Control })
	return failed[max(asked, 0)], unsupported
}

// whyFailed says in which cell a trial failed, and why.
func whyFailed(r *bench.Run, s bench.Sample) string {
	parts := []string{r.Header.Plan.Cells[s.Trial.Cell].FullName()}
	if s.Outcome != bench.Unsupported && s.Operation != "" && !strings.HasPrefix(s.Reason, s.Operation+":") {
		parts = append(parts, s.Operation)
	}
	if s.Reason == "" {
		return strings.Join(append(parts, string(s.Outcome)), ": ")
	}
	return strings.Join(append(parts, bench.BriefReason(s.Reason)), ": ")
}
