package analysis_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
)

// What turns cost is the mean over the trials that took some, of all parts together: not of warm-up, of trials that
// failed or ran whole, and not what no trial can have.
func TestTurnCosts(t *testing.T) {
	none := math.NaN()
	r := &bench.Run{Header: bench.Header{
		Plan: bench.Plan{Cells: []bench.Cell{{Name: "whole"}, {Name: "slices"}, {Name: "containers"}}},
		Metrics: []bench.Metric{
			{Name: "trial.turns"},
			{Name: "trial.turns_time"},
			{Name: "trial.turns_lost"},
			{Name: "read.trial.turns"},
			{Name: "read.trial.turns_time"},
			{Name: "read.trial.turns_lost"},
		},
	}}
	add := func(block, cell int, outcome bench.Outcome, values ...float64) {
		r.Samples = append(r.Samples, bench.Sample{
			Trial: bench.Trial{Block: block, Cell: cell}, Outcome: outcome, Values: values,
		})
	}
	add(-1, 1, bench.OK, 1000, 1000, 1000)
	add(0, 0, bench.OK, none, none, none, none, none, none)
	add(0, 1, bench.OK, 50, 1, 0.01, 10, 0.2, 0.01)
	add(1, 1, bench.OK, 40, 0.8, 0.02)
	add(2, 1, bench.Failed, 1000, 1000, 1000)
	add(3, 1, bench.OK, none, 7, 7)
	add(0, 2, bench.OK, 5, math.Inf(1), -1)
	want := []analysis.TurnCost{
		{Cell: 1, Trials: 2, Turns: 50, Time: 1, Lost: 0.02},
		{Cell: 2, Trials: 1, Turns: 5},
	}
	if diff := cmp.Diff(want, analysis.TurnCosts(r), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
