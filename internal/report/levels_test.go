package report_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// TestLevelNumbers checks that a level that is a number, a size or a time is also there in base units, and that no
// other has a number.
func TestLevelNumbers(t *testing.T) {
	levels := []string{"8", "-1.5", "64KiB", "250ms", "1m", "overlay", "NaN", "Inf"}
	wants := []float64{8, -1.5, 65536, 0.25, 60}
	run := analysistest.Run(analysistest.Shape{
		Seed: 1, Blocks: 2, Cells: engines()[:2], Metrics: analysistest.Lifecycle()[:1],
		Grid: []bench.Factor{{Name: "x", Levels: levels, Condition: true}},
	})
	result, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conditions := report.New(result, nil).Metrics[0].Conditions
	if len(conditions) != len(levels) {
		t.Fatalf("%d conditions, want %d", len(conditions), len(levels))
	}
	for i, c := range conditions {
		switch l := c.Levels[0]; {
		case l.Key != "x" || l.Value != levels[i]:
			t.Errorf("level %d is %s=%s, want %s", i, l.Key, l.Value, levels[i])
		case i >= len(wants) && l.Number != nil:
			t.Errorf("%s is %v, want no number", l.Value, *l.Number)
		case i < len(wants) && (l.Number == nil || *l.Number != wants[i]):
			t.Errorf("%s is not %v", l.Value, wants[i])
		}
	}
}
