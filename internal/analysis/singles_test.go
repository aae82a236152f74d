package analysis_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
)

// pairOfCells is a run whose second cell takes twice the time, without its trial of block 2.
func pairOfCells() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 3, Blocks: 8, NoControl: true, Metrics: analysistest.Lifecycle()[:1],
		Cells: []analysistest.Cell{{Name: "base"}, {Name: "new", Factor: 2}},
	})
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Block == 2 && s.Trial.Cell == 1 {
			s.Outcome, s.Values, s.Reason = bench.Failed, nil, "no"
		}
	}
	return run
}

func analyzeSingles(t *testing.T, run *bench.Run) *analysis.Result {
	t.Helper()
	r, err := analysis.Analyze(run, analysis.Options{Singles: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSingles checks that values and changes stand at their blocks, with a hole where a trial failed.
func TestSingles(t *testing.T) {
	run := pairOfCells()
	r := analyzeSingles(t, run)
	if d := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7}, r.BlockNumbers); d != "" {
		t.Errorf("blocks (-want +got):\n%s", d)
	}
	values := [2][]float64{}
	for c := range values {
		values[c] = make([]float64, 8)
		for b := range values[c] {
			values[c][b] = math.NaN()
		}
	}
	for _, s := range run.Samples {
		if s.Outcome == bench.OK {
			values[s.Trial.Cell][s.Trial.Block] = s.Values[0]
		}
	}
	c := r.Metrics[0].Conditions[0]
	for i := range values {
		if d := cmp.Diff(values[i], c.Cells[i].Values, cmpopts.EquateNaNs()); d != "" {
			t.Errorf("values of cell %d (-want +got):\n%s", i, d)
		}
	}
	changes := make([]float64, 8)
	for b := range changes {
		changes[b] = values[1][b] / values[0][b]
	}
	approx := cmpopts.EquateApprox(1e-12, 0)
	if d := cmp.Diff(changes, c.Cells[1].Comparison.Changes, cmpopts.EquateNaNs(), approx); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	if plain := mustAnalyze(t, run); plain.Metrics[0].Conditions[0].Cells[0].Values != nil || plain.Spectra != nil {
		t.Error("there are single values though nobody asked for them")
	}
}

func mustAnalyze(t *testing.T, run *bench.Run) *analysis.Result {
	t.Helper()
	r, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSpectrum checks percentiles from histograms: those with ten operations beyond them, one value a
// trial, and cells compared by block.
func TestSpectrum(t *testing.T) {
	run := pairOfCells()
	for i := range run.Samples {
		s := &run.Samples[i]
		if s.Outcome != bench.OK {
			continue
		}
		h := load.NewHistogram()
		for n := range 1000 { // 1 to 1000 µs, and twice that in the second cell
			h.Add(time.Duration(n+1) * time.Microsecond * time.Duration(s.Trial.Cell+1))
		}
		d, err := h.Distribution()
		if err != nil {
			t.Fatal(err)
		}
		s.Distributions = []bench.Distribution{{Metric: "time", HDR: string(d)}, {Metric: "broken", HDR: "HISTFno"}}
	}
	all := analyzeSingles(t, run).Spectra
	if len(all) != 1 || all[0].Metric != "time" || len(all[0].Cells) != 2 {
		t.Fatalf("spectra: %+v, want one of two cells", all)
	}
	var shares []float64
	for _, p := range all[0].Cells[1].Points {
		shares = append(shares, p.P)
	}
	if d := cmp.Diff([]float64{0.5, 0.75, 0.9, 0.95, 0.99}, shares); d != "" {
		t.Errorf("percentiles of 1,000 operations (-want +got):\n%s", d)
	}
	last := all[0].Cells[1].Points[4]
	if last.Trials != 7 || math.Abs(last.Median/1980e-6-1) > 0.002 {
		t.Errorf("p99 over %d trials is %v, want 7 and 1.98 ms", last.Trials, last.Median)
	}
	if c := last.Change; c == nil || c.Pairs != 7 || math.Abs(c.Estimate-2) > 0.004 {
		t.Errorf("the change of p99 is %+v, want 2 from 7 pairs", c)
	}
}

// TestCurve checks the curve over trials of different lengths: it ends where half of them end.
func TestCurve(t *testing.T) {
	run := pairOfCells()
	for i := range run.Samples {
		s := &run.Samples[i]
		if s.Outcome != bench.OK {
			continue
		}
		n := 4 // of four blocks, and 6 of the other four
		if s.Trial.Block%2 == 1 {
			n = 6
		}
		x := make([]float64, n)
		for k := range x {
			x[k] = float64(10*k + s.Trial.Block)
		}
		s.Series = []bench.Series{{Metric: "each", Values: x}}
	}
	all := analyzeSingles(t, run).Curves
	if len(all) != 1 || len(all[0].Cells) != 2 {
		t.Fatalf("curves: %+v, want one of two cells", all)
	}
	got := all[0].Cells[0]
	if d := cmp.Diff([]int{1, 2, 3, 4}, got.At); d != "" {
		t.Errorf("positions (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]float64{3.5, 13.5, 23.5, 33.5}, got.Median); d != "" {
		t.Errorf("medians (-want +got):\n%s", d)
	}
}

// TestCurveOfSeconds checks that a second in which nothing ended has no time, and a rate of 0.
func TestCurveOfSeconds(t *testing.T) {
	run := pairOfCells()
	run.Header.Metrics[0].Name, run.Header.Metrics[0].Unit = "load.time.mean", "s"
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Outcome == bench.OK {
			s.Series = []bench.Series{
				{Metric: "load.per_second.time.mean", Values: []float64{0.002, 0, 0.004}},
				{Metric: "load.per_second.rate", Values: []float64{500, 0, 250}},
			}
		}
	}
	all := analyzeSingles(t, run).Curves
	if len(all) != 2 {
		t.Fatalf("curves: %+v, want two", all)
	}
	for i, want := range [][]float64{{0.002, 0.004}, {500, 0, 250}} {
		if d := cmp.Diff(want, all[i].Cells[0].Median); d != "" {
			t.Errorf("%s (-want +got):\n%s", all[i].Metric, d)
		}
	}
}

// TestLongCurves checks that curves of different lengths have the same positions, so that cells can be
// compared at each, and not too many.
func TestLongCurves(t *testing.T) {
	run := pairOfCells()
	for i := range run.Samples {
		s := &run.Samples[i]
		if s.Outcome != bench.OK {
			continue
		}
		x := make([]float64, 500+600*s.Trial.Cell)
		for k := range x {
			x[k] = float64(k + 1)
		}
		s.Series = []bench.Series{{Metric: "each", Values: x}}
	}
	curve := analyzeSingles(t, run).Curves[0]
	if curve.Length != 1100 {
		t.Errorf("length %d, want that of the longer one, 1100", curve.Length)
	}
	cells := curve.Cells
	for _, c := range cells {
		if len(c.At) > analysis.MaxCurve || c.At[0] != 1 || c.At[len(c.At)-1] < 490 {
			t.Errorf("cell %d has %d positions from %d to %d", c.Cell, len(c.At), c.At[0], c.At[len(c.At)-1])
		}
		for k, at := range c.At {
			if c.Median[k] != float64(at) {
				t.Fatalf("cell %d has %v at position %d", c.Cell, c.Median[k], at)
			}
		}
	}
	if d := cmp.Diff(cells[1].At[:len(cells[0].At)], cells[0].At); d != "" {
		t.Errorf("positions of the two cells (-longer +shorter):\n%s", d)
	}
}
