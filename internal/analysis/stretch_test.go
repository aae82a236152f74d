package analysis_test

import (
	"math"
	"slices"
	"testing"
	"time"

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

// Where nothing differs, turns and stretches together claim a difference in at most 5 % of runs.
func TestInterruptedClaims(t *testing.T) {
	const runs = 2000
	n := 0
	for seed := range uint64(runs) {
		r, err := analysis.Analyze(inTurns(seed, 1, 1), analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if v := r.Metrics[0].Conditions[0].Cells[1].Comparison.Verdict; v == analysis.Better || v == analysis.Worse {
			n++
		}
	}
	if limit := 0.05*runs + 3*math.Sqrt(0.05*0.95*runs); float64(n) > limit {
		t.Errorf("%d of %d runs, want at most %.0f", n, runs, limit)
	}
}

// Where a comparison is that of stretches, so is its control.
func TestControlOfInterrupted(t *testing.T) {
	run := inTurns(3, 1, 0.5)
	for i := range run.Samples {
		if s := &run.Samples[i]; run.Header.Plan.Cells[s.Trial.Cell].Control {
			s.Values[1] *= 1.2
		}
	}
	r, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Metrics[0].Conditions[0].Noise; math.Abs(c.Estimate/1.2-1) > 0.05 {
		t.Errorf("the control is %.3f, want 1.2, as the stretches have it", c.Estimate)
	}
}

// The last block of a run in turns takes as long as all of its trials together, which begin together.
func TestWallOfTurns(t *testing.T) {
	began := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	run := inTurns(3, 1, 1)
	cells := len(run.Header.Plan.Cells)
	for i := range run.Samples {
		s := &run.Samples[i]
		s.Began, s.Elapsed = began.Add(time.Duration(i/cells)*time.Duration(cells)*time.Second), time.Second
	}
	r, err := analysis.Analyze(run, analysis.Options{})
	if want := time.Duration(len(run.Samples)) * time.Second; err != nil || r.Wall != want {
		t.Errorf("Wall = %v, %v; want %v", r.Wall, err, want)
	}
}
