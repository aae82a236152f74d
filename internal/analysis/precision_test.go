package analysis_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// stops follows a run and returns after which block it would have stopped, -1
// if never.
func stops(run *bench.Run) int {
	p := analysis.NewPrecision(run.Header.Plan, run.Header.Metrics)
	for i, s := range run.Samples {
		p.Add(s)
		last := i+1 == len(run.Samples) || run.Samples[i+1].Trial.Block != s.Trial.Block
		if last && p.Reached() {
			return s.Trial.Block
		}
	}
	return -1
}

// TestPrecision checks the stopping rule against what Analyze says of the same
// blocks.
func TestPrecision(t *testing.T) {
	const asked = 0.015
	run := analysistest.Run(steadyRun(120))
	run.Header.Plan.Precision = asked
	at := stops(run)
	if at < 12 || at > 60 {
		t.Fatalf("stopped after block %d", at)
	}
	for block := at - 4; block <= at; block++ {
		cut := *run
		cut.Samples = slices.DeleteFunc(slices.Clone(run.Samples), func(s bench.Sample) bool { return s.Trial.Block > block })
		worst := 0.0
		for _, m := range analyze(t, &cut).Metrics[:2] {
			for _, c := range m.Conditions[0].Cells[1:] {
				worst = max(worst, c.Comparison.HalfWidth())
			}
		}
		if precise := worst <= asked; precise != (block > at-3) && block >= at-2 {
			t.Errorf("after block %d: ±%v, but stopped after block %d", block, worst, at)
		}
	}
}

// TestPrecisionNotAsked checks that a run without a precision goes on.
func TestPrecisionNotAsked(t *testing.T) {
	if at := stops(analysistest.Run(steadyRun(30))); at >= 0 {
		t.Errorf("stopped after block %d", at)
	}
}

func TestPrecisionWaitsForNobody(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(s *bench.Sample)
		stops bool
	}{
		{"a cell that was given up", func(s *bench.Sample) {
			if s.Trial.Cell == 2 && s.Trial.Block > 3 {
				s.Outcome, s.Values = bench.Skipped, nil
			}
		}, true},
		{"a cell that never works", func(s *bench.Sample) {
			if s.Trial.Cell == 2 {
				s.Outcome, s.Values = bench.Failed, nil
			}
		}, true},
		{"a cell that sometimes works", func(s *bench.Sample) {
			if s.Trial.Cell == 2 && s.Trial.Block%20 != 0 {
				s.Outcome, s.Values = bench.Failed, nil
			}
		}, false},
		{"a metric that a cell has no more", func(s *bench.Sample) {
			if s.Trial.Cell == 2 && s.Trial.Block > 12 {
				s.Values[0] = math.NaN()
			} else if s.Trial.Cell == 2 {
				s.Values[0] *= float64(1 + s.Trial.Block%3)
			}
		}, true},
		{"a metric that a cell often has not", func(s *bench.Sample) {
			if s.Trial.Cell == 2 && s.Trial.Block%3 != 0 {
				s.Values[0] = math.NaN()
			} else if s.Trial.Cell == 2 {
				s.Values[0] *= float64(1 + s.Trial.Block%7)
			}
		}, false},
		{"a noisy cell that is back", func(s *bench.Sample) {
			if s.Trial.Cell == 2 && s.Trial.Block < 5 {
				s.Outcome, s.Values = bench.Skipped, nil
			} else if s.Trial.Cell == 2 {
				s.Values[0] *= float64(1 + s.Trial.Block%7)
			}
		}, false},
		{"a difference from nothing", func(s *bench.Sample) {
			switch s.Values[0] = 0; s.Trial.Cell {
			case 1:
				s.Values[0] = float64(s.Trial.Block % 2)
			}
		}, true},
		{"a baseline that never works", func(s *bench.Sample) {
			if s.Trial.Cell == 0 {
				s.Outcome, s.Values = bench.Failed, nil
			}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := analysistest.Run(steadyRun(60))
			run.Header.Plan.Precision = 0.03
			if tt.name == "a difference from nothing" {
				run.Header.Metrics = slices.Clone(run.Header.Metrics)
				run.Header.Metrics[0].Scale = bench.Difference
			}
			for i := range run.Samples {
				tt.spoil(&run.Samples[i])
			}
			if at := stops(run); (at >= 0) != tt.stops {
				t.Errorf("stopped after block %d", at)
			}
		})
	}
}

// TestPrecisionNeedsPairs checks that blocks without a pair do not count.
func TestPrecisionNeedsPairs(t *testing.T) {
	run := analysistest.Run(steadyRun(60))
	run.Header.Plan.Precision, run.Header.Plan.MinBlocks = 0.5, 10
	if at := stops(run); at != 9 {
		t.Errorf("stopped after block %d, want 9", at)
	}
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 0 && s.Trial.Block%3 == 1 {
			s.Outcome, s.Values = bench.Failed, nil
		}
	}
	if at := stops(run); at != 14 {
		t.Errorf("stopped after block %d, want 14: the tenth with a pair", at)
	}
}

// TestPrecisionByMetric gives each metric a precision of its own, and checks that what
// the cells differ by has no say in it.
func TestPrecisionByMetric(t *testing.T) {
	const coarse, fine = 0, 1 // metrics: the noise of the first is ten times that of the second
	made := func(factor float64) *bench.Run {
		run, random := analysistest.Run(steadyRun(120)), rand.New(rand.NewPCG(1, 1))
		for i := range run.Samples {
			s := &run.Samples[i]
			s.Values[coarse] *= math.Exp(0.3 * random.NormFloat64())
			if s.Trial.Cell == 1 {
				s.Values[coarse] *= factor
				s.Values[fine] *= factor
			}
		}
		return run
	}
	margin := func(metric int, precision float64) bench.Margin {
		return bench.Margin{Metric: analysistest.Lifecycle()[metric].Name, Precision: precision}
	}
	alone := func(metric int, precision float64) int {
		run := made(1)
		run.Header.Plan.Precision, run.Header.Plan.Restrict = precision, []string{analysistest.Lifecycle()[metric].Name}
		return stops(run)
	}
	for _, tt := range []struct {
		name    string
		all     float64
		margins []bench.Margin
		want    int
	}{
		{"one for all is too fine for the coarse", 0.015, nil, -1},
		{"the coarse may be coarse", 0.015, []bench.Margin{margin(coarse, 0.9)}, alone(fine, 0.015)},
		{"the coarse is not waited for", 0.015, []bench.Margin{margin(coarse, 0)}, alone(fine, 0.015)},
		{"the coarse alone is waited for", 0, []bench.Margin{margin(coarse, 0.15)}, alone(coarse, 0.15)},
		{"nothing is waited for", 0.015, []bench.Margin{margin(coarse, 0), margin(fine, 0)}, -1},
		{"a detail is not waited for", 0.9, []bench.Margin{margin(2, 1e-6)}, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, factor := range []float64{1, 1.07, 40} {
				run := made(factor)
				run.Header.Plan.Precision, run.Header.Plan.Margins = tt.all, tt.margins
				if at := stops(run); at != tt.want {
					t.Errorf("with a factor of %v stopped after block %d, want %d", factor, at, tt.want)
				}
			}
		})
	}
	if a, b := alone(fine, 0.015), alone(coarse, 0.15); a < 12 || b < 12 || a == b {
		t.Errorf("alone they stop after blocks %d and %d: the test cannot tell", a, b)
	}
}

// TestPrecisionResumed checks that a run that is taken up again stops where it
// would have stopped.
func TestPrecisionResumed(t *testing.T) {
	run := analysistest.Run(steadyRun(120))
	run.Header.Plan.Precision = 0.015
	want := stops(run)
	p := analysis.NewPrecision(run.Header.Plan, run.Header.Metrics)
	for i, s := range run.Samples {
		p.Add(s)
		last := i+1 == len(run.Samples) || run.Samples[i+1].Trial.Block != s.Trial.Block
		if s.Trial.Block < want-1 || !last {
			continue // what was stored is only added
		}
		if p.Reached() {
			if s.Trial.Block != want {
				t.Errorf("stopped after block %d, want %d", s.Trial.Block, want)
			}
			return
		}
	}
	t.Error("never stopped")
}

// BenchmarkPrecision is what is done after one block of a run of 500 blocks, 6
// cells and 2 primary metrics: until it is precise, and in its last blocks.
func BenchmarkPrecision(b *testing.B) {
	run := analysistest.Run(steadyRun(501))
	split := len(run.Samples) - 6
	for name, asked := range map[string]float64{"until": 1e-6, "last": 1} {
		b.Run(name, func(b *testing.B) {
			run.Header.Plan.Precision = asked
			for b.Loop() {
				b.StopTimer()
				p := analysis.NewPrecision(run.Header.Plan, run.Header.Metrics)
				for _, s := range run.Samples[:split] {
					p.Add(s)
				}
				p.Reached()
				b.StartTimer()
				for _, s := range run.Samples[split:] {
					p.Add(s)
				}
				p.Reached()
			}
		})
	}
}

// TestDecisive checks that what is said of a plan beforehand is what its run comes to:
// with so many blocks the largest difference is one, and with one fewer none is.
func TestDecisive(t *testing.T) {
	for _, tt := range []struct {
		cells       int
		conditions  []string
		comparisons int
	}{
		{1, nil, 0},
		{2, nil, 2},
		{4, nil, 6},
		{3, []string{"clients=1", "clients=8"}, 12}, // and their summary
	} {
		s := analysistest.Shape{Seed: 1, Conditions: tt.conditions, Metrics: analysistest.Lifecycle()[:3]}
		for i := range tt.cells {
			s.Cells = append(s.Cells, analysistest.Cell{Name: string(rune('a' + i)), Factor: math.Pow(10, float64(i))})
		}
		h := analysistest.Run(s).Header
		_, blocks, comparisons := analysis.Decisive(h.Plan, h.Metrics, 1)
		if comparisons != tt.comparisons || (comparisons == 0) != (blocks == 0) {
			t.Errorf("%d cells: %d blocks for %d comparisons, want %d", tt.cells, blocks, comparisons, tt.comparisons)
		}
		for n, want := range map[int]analysis.Verdict{blocks: analysis.Worse, blocks - 1: analysis.Unclear} {
			if s.Blocks = n; blocks == 0 {
				continue
			}
			if got := analyze(t, analysistest.Run(s)).Metrics[0].Conditions[0].Cells[1].Comparison.Verdict; got != want {
				t.Errorf("%d cells, %d blocks: ten times as much is %s, want %s", tt.cells, n, got, want)
			}
		}
	}
}
