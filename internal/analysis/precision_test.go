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
	run := analysistest.Run(five(120))
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
	if at := stops(analysistest.Run(five(30))); at >= 0 {
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
		{"a baseline that never works", func(s *bench.Sample) {
			if s.Trial.Cell == 0 {
				s.Outcome, s.Values = bench.Failed, nil
			}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := analysistest.Run(five(60))
			run.Header.Plan.Precision = 0.03
			for i := range run.Samples {
				tt.spoil(&run.Samples[i])
			}
			if at := stops(run); (at >= 0) != tt.stops {
				t.Errorf("stopped after block %d", at)
			}
		})
	}
}

// TestPrecisionByMetric gives each metric a precision of its own, and checks that what
// the cells differ by has no say in it.
func TestPrecisionByMetric(t *testing.T) {
	const coarse, fine = 0, 1 // metrics: the noise of the first is ten times that of the second
	made := func(factor float64) *bench.Run {
		run, random := analysistest.Run(five(120)), rand.New(rand.NewPCG(1, 1))
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

// TestKnown checks when a metric need not be measured any more: once it is known to two
// thirds of what was asked of it, for all cells, whatever is known of others.
func TestKnown(t *testing.T) {
	const asked = 0.02
	names := func(metrics ...int) (names []string) {
		for _, m := range metrics {
			names = append(names, analysistest.Lifecycle()[m].Name)
		}
		return names
	}
	run, random := analysistest.Run(five(120)), rand.New(rand.NewPCG(1, 1))
	for i := range run.Samples {
		run.Samples[i].Values[0] *= math.Exp(0.3 * random.NormFloat64())
	}
	run.Header.Plan.Precision = asked
	p := analysis.NewPrecision(run.Header.Plan, run.Header.Metrics)
	since := -1
	for i, s := range run.Samples {
		before := p.Known(names(1))
		p.Add(s)
		if i == 0 || run.Samples[i-1].Trial.Block == s.Trial.Block {
			if p.Known(names(1)) != before {
				t.Fatalf("block %d: known is another thing in the middle of it", s.Trial.Block)
			}
		}
		if i+1 < len(run.Samples) && run.Samples[i+1].Trial.Block == s.Trial.Block {
			continue
		}
		if p.Reached() {
			t.Fatalf("block %d: reached with a metric that is not known", s.Trial.Block)
		}
		for _, never := range [][]string{names(0), names(0, 1), names(2), nil} {
			if p.Known(never) {
				t.Fatalf("block %d: %q are known", s.Trial.Block, never)
			}
		}
		switch known := p.Known(names(1, 2)); {
		case known && since < 0:
			since = s.Trial.Block
		case !known && since >= 0:
			t.Fatalf("block %d: known since %d and not any more", s.Trial.Block, since)
		}
	}
	if since < 12 || since > 110 {
		t.Fatalf("known after block %d", since)
	}
	for block := since - 3; block <= since; block++ {
		cut := *run
		cut.Samples = slices.DeleteFunc(slices.Clone(run.Samples), func(s bench.Sample) bool { return s.Trial.Block > block })
		worst := 0.0
		for _, c := range analyze(t, &cut).Metrics[1].Conditions[0].Cells[1:] {
			worst = max(worst, c.Comparison.HalfWidth())
		}
		if precise := worst <= asked*2/3; precise != (block > since-3) {
			t.Errorf("after block %d: ±%v, but known after block %d", block, worst, since)
		}
	}
}

// TestPrecisionResumed checks that a run that is taken up again stops where it
// would have stopped.
func TestPrecisionResumed(t *testing.T) {
	run := analysistest.Run(five(120))
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
	run := analysistest.Run(five(501))
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
