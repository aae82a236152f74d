package analysis_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// inTurns is a run of a cell whose ratio to the baseline is one in turns and another in stretches.
func inTurns(seed uint64, turns, stretch float64) *bench.Run {
	metrics := bench.WithStretches([]bench.Metric{{
		Name: "speed", Title: "speed", Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio,
		Doc: "Work per second.",
	}}, "speed")
	run := analysistest.Run(analysistest.Shape{
		Seed: seed, Blocks: 14, Metrics: metrics, Cells: []analysistest.Cell{{Name: "native"}, {Name: "runc", Factor: turns}},
	})
	for i := range run.Samples {
		s := &run.Samples[i]
		if run.Header.Plan.Cells[s.Trial.Cell].Name == "runc" {
			s.Values[1] *= stretch / turns
		}
	}
	return run
}

// Where turns and stretches agree the turns decide. Where they do not, the stretches do, with a warning.
func TestInterrupted(t *testing.T) {
	for name, test := range map[string]struct {
		turns, stretch, want float64
		interrupted          bool
	}{
		"alike": {0.9, 0.9, 0.9, false}, "a quota": {1, 0.5, 0.5, true}, "less than matters": {0.9, 0.905, 0.9, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := analysis.Analyze(inTurns(3, test.turns, test.stretch), analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c := r.Metrics[0].Conditions[0].Cells[1].Comparison
			warned := slices.ContainsFunc(r.Warnings, func(w bench.Warning) bool { return w.Code == analysis.CodeInterrupted })
			if c.Interrupted != test.interrupted || warned != test.interrupted || math.Abs(c.Estimate/test.want-1) > 0.03 {
				t.Errorf("estimate %.3f, interrupted %v, warned %v; want %.3f and %v",
					c.Estimate, c.Interrupted, warned, test.want, test.interrupted)
			}
		})
	}
}

// By chance turns and stretches seem to differ in at most 5 % of runs.
func TestInterruptedFalseAlarms(t *testing.T) {
	const runs = 400
	n := 0
	for seed := range uint64(runs) {
		r, err := analysis.Analyze(inTurns(seed, 0.97, 0.97), analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*analysis.Comparison{r.Metrics[0].Conditions[0].Cells[1].Comparison, r.Metrics[0].Conditions[0].Noise} {
			if c.Interrupted {
				n++
				break
			}
		}
	}
	if limit := 0.05*runs + 3*math.Sqrt(0.05*0.95*runs); float64(n) > limit {
		t.Errorf("%d of %d runs, want at most %.0f", n, runs, limit)
	}
}
