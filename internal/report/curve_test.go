package report_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// TestCurveOfSeconds checks that the curve of a metric's seconds has the metric's title and unit.
func TestCurveOfSeconds(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{Seed: 3, Blocks: 8, Cells: engines()[:2]})
	for i := range run.Samples {
		run.Samples[i].Series = []bench.Series{
			{Metric: "per_second.total", Values: []float64{0.1, 0.2}},
			{Metric: "total", Values: []float64{1, 2}},
			{Metric: "part.per_second.unheard", Values: []float64{3, 4}},
		}
	}
	var got []report.Curve
	result, err := analysis.Analyze(run, analysis.Options{Singles: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.New(result, nil).Curves {
		c.Cells = nil
		got = append(got, c)
	}
	want := []report.Curve{
		{Metric: "per_second.total", Title: "whole life", Unit: "s", PerSecond: true, Length: 2},
		{Metric: "total", Title: "whole life", Unit: "s", Length: 2},
		{Metric: "part.per_second.unheard", Title: "part.unheard", PerSecond: true, Length: 2},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
