package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// nothingMeasured reports whether a run has trials, and none that succeeded.
func nothingMeasured(r *bench.Run) bool {
	return len(r.Samples) > 0 && !slices.ContainsFunc(r.Samples, func(s bench.Sample) bool { return s.Outcome == bench.OK })
}

// outcome is the error of a run that is stored whole, for its trials; nil where
// all is well.
func outcome(r *bench.Run) error {
	switch {
	case nothingMeasured(r):
		return nothing(r)
	case failedTrials(r) > 0, slices.ContainsFunc(r.Samples, func(s bench.Sample) bool { return s.PartFailed() }):
		return errTrialsFailed
	default:
		return groundless(r)
	}
}

// refused is the error of a plan of which no cell can be run here, as far as that can be
// known before there is a run; nil if one can. What hooks may yet provide is left to them.
func (p *planned) refused(ctx context.Context, dir string) error {
	if len(p.plan.Hooks) > 0 {
		return nil
	}
	why := run.Refused(ctx, run.Options{
		Header: bench.Header{ID: p.site.run, Plan: p.plan}, Workload: p.workload,
		Engines: p.engines(), Client: p.client(), Dir: dir,
	})
	if why == nil {
		return nil
	}
	var reasons []string
	cells := map[string][]string{} // by their reason
	for i, err := range why {
		if c := p.plan.Cells[i]; !c.Control {
			reason := err.Error()
			if cells[reason] == nil {
				reasons = append(reasons, reason)
			}
			cells[reason] = append(cells[reason], c.FullName())
		}
	}
	for i, reason := range reasons {
		reasons[i] = strings.Join(cells[reason], ", ") + ": " + reason
	}
	return &hintError{
		&kindError{"nothing can be measured: " + strings.Join(reasons, "\n"), bench.ErrUnsupported},
		"'tare doctor' says which engines can be used here; 'tare plan' shows what the cells ask for",
	}
}

// groundless is the error of a run whose baseline cannot run what it asks for, so
// that nothing was compared; nil where there is one that can.
func groundless(r *bench.Run) error {
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
	return &hintError{
		&kindError{fmt.Sprintf("run %s compared nothing: %s", r.Header.ID, whyFailed(r, r.Samples[without])), bench.ErrUnsupported},
		"choose another cell to compare with: --baseline CELL",
	}
}

// nothing is the error of such a run. Its first reason stands for all: the
// report has the others.
func nothing(r *bench.Run) error {
	s, unsupported := firstFailure(r)
	if unsupported {
		return &hintError{
			&kindError{fmt.Sprintf("run %s measured nothing: %s", r.Header.ID, whyFailed(r, s)), bench.ErrUnsupported},
			"'tare doctor' says which engines can be used here; 'tare plan' shows what the cells ask for",
		}
	}
	return &hintError{
		fmt.Errorf("run %s measured nothing, no trial succeeded: %s", r.Header.ID, whyFailed(r, s)),
		"mend that and run again; 'tare doctor' says which engines can be used here",
	}
}

// firstFailure returns the first sample that failed, of a cell that the user
// asked for if there is one, and whether all there is is cells that their engines
// cannot do.
func firstFailure(r *bench.Run) (first bench.Sample, unsupported bool) {
	failed := slices.DeleteFunc(slices.Clone(r.Samples), func(s bench.Sample) bool { return s.Outcome == bench.Unsupported })
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
	return strings.Join(append(parts, s.Reason), ": ")
}
