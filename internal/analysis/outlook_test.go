package analysis_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// An outlook counts what the noise of a few blocks leaves undecided: of two cells, one differs ten times and one by
// less than the values scatter.
func TestOutlook(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{
		Seed: 3, Blocks: 40, Metrics: analysistest.Lifecycle()[:1],
		Noise: func(r *rand.Rand) float64 { return 0.1 * r.NormFloat64() },
		Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 10}, {Name: "c", Factor: 1.03}},
	})
	for _, tt := range []struct{ judged, blocks, unclear int }{
		{6, 6, 2}, // two comparisons need 7 blocks
		{6, 20, 1},
		{6, 5000, 0},
		{40, 20, 1},
		{40, 6, 2}, // only as many blocks are looked at
	} {
		run := *run
		run.Samples = slices.DeleteFunc(slices.Clone(run.Samples), func(s bench.Sample) bool {
			return s.Trial.Block >= tt.judged
		})
		o, err := analysis.OutlookOf(&run, tt.blocks)
		if err != nil {
			t.Fatal(err)
		}
		if o.Compared != 2 || o.Unclear != tt.unclear {
			t.Errorf("%+v: %+v", tt, o)
		}
		if len(o.Needs) != tt.unclear || tt.unclear > 0 && o.Needs[0] <= tt.blocks {
			t.Errorf("%+v: %v blocks are said to be needed", tt, o.Needs)
		}
	}
}
