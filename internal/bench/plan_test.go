package bench_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// What is asked of metrics that do not decide, or of none, is not asked.
func TestPrecisions(t *testing.T) {
	metrics := []bench.Metric{
		{Name: "total", Role: bench.Primary}, {Name: "start", Role: bench.Primary}, {Name: "exit", Role: bench.Detail},
	}
	for name, test := range map[string]struct {
		plan           bench.Plan
		least, largest float64
	}{
		"none":                 {bench.Plan{}, 0, 0},
		"one for all":          {bench.Plan{Precision: 0.03}, 0.03, 0.03},
		"the same for one":     {bench.Plan{Precision: 0.03, Margins: []bench.Margin{{Metric: "total", Precision: 0.03}}}, 0.03, 0.03},
		"another for one":      {bench.Plan{Precision: 0.03, Margins: []bench.Margin{{Metric: "total", Precision: 0.05}}}, 0.03, 0.05},
		"of one alone":         {bench.Plan{Margins: []bench.Margin{{Metric: "start", Precision: 0.05}}}, 0.05, 0.05},
		"off for one":          {bench.Plan{Precision: 0.03, Margins: []bench.Margin{{Metric: "start"}}}, 0.03, 0.03},
		"of a detail":          {bench.Plan{Precision: 0.03, Margins: []bench.Margin{{Metric: "exit", Precision: 0.5}}}, 0.03, 0.03},
		"of one made a detail": {bench.Plan{Precision: 0.03, Restrict: []string{"exit"}, Margins: []bench.Margin{{Metric: "total", Precision: 0.5}}}, 0.03, 0.03},
	} {
		if least, largest := test.plan.Precisions(metrics); least != test.least || largest != test.largest {
			t.Errorf("%s: %v to %v, want %v to %v", name, least, largest, test.least, test.largest)
		}
	}
}

// However few blocks there may be, as many are traced as give an interval, if there can be so many.
func TestTraceEvery(t *testing.T) {
	for _, test := range []struct{ blocks, asked, want int }{{500, 4, 4}, {24, 4, 4}, {23, 4, 3}, {6, 4, 1}, {2, 4, 1}, {500, 1, 1}} {
		p := bench.Plan{MaxBlocks: test.blocks}
		if p.TraceEvery(test.asked); p.Timeline != test.want {
			t.Errorf("of %d blocks, after every %d: %d, want %d", test.blocks, test.asked, p.Timeline, test.want)
		}
	}
	p := bench.Plan{Timeline: 3}
	for block, want := range map[int]bool{-1: false, 0: false, 1: false, 2: true, 3: false, 5: true} {
		if p.TracesAfter(block) != want {
			t.Errorf("block %d: traced %v", block, !want)
		}
	}
	if (&bench.Plan{}).TracesAfter(0) {
		t.Error("a plan without timelines traces")
	}
}
