package analysis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// walk is a random walk with steps of a standard deviation.
func walk(r *rand.Rand, blocks int, step float64) []float64 {
	x := make([]float64, blocks)
	for i := 1; i < blocks; i++ {
		x[i] = x[i-1] + step*r.NormFloat64()
	}
	return x
}

// TestRunsJointCoverage compares two hosts that were measured together. Both share a drift of 10 % from
// block to block, and each may have a drift of its own. It counts how often the 95 % interval holds the
// difference that there was while they were measured, how often one host is claimed to be slower though
// it was not, and how often a host that changed by itself is said to.
func TestRunsJointCoverage(t *testing.T) {
	const blocks = 20
	n := analysistest.Repetitions(300, 4000)
	t.Logf("%d comparisons each of %d blocks, noise 3 %%", n, blocks)
	for i, own := range []float64{0, 0.005, 0.02} {
		r := rand.New(rand.NewPCG(uint64(i), 38))
		covered, claimed, told := 0, 0, 0
		for range n {
			common := walk(r, blocks, 0.1)
			var drifts [2][]float64
			var runs []*bench.Run
			for host := range drifts {
				drifts[host] = walk(r, blocks, own)
				run := analysistest.Run(analysistest.Shape{
					Seed: r.Uint64(), Blocks: blocks, NoControl: true, Metrics: analysistest.Lifecycle()[:1],
					Cells: []analysistest.Cell{{Name: "native"}},
					Block: func(_ *rand.Rand, block int) float64 { return common[block] + drifts[host][block] },
				})
				run.Header.Host.Hostname = fmt.Sprint("host", host)
				run.Header.Joint = &bench.Joint{ID: "joint", Host: fmt.Sprint("host", host), Hosts: []string{"host0", "host1"}}
				for k := range run.Samples {
					run.Samples[k].Began = analysistest.Epoch().Add(time.Duration(run.Samples[k].Trial.Block) * time.Minute)
				}
				runs = append(runs, run)
			}
			truth := 0.0
			for b := range blocks {
				truth += (drifts[1][b] - drifts[0][b]) / blocks
			}
			c := contrast(t, runs...)
			got := c.Metrics[0].Rows[0].Sides[1].Comparison
			covered += one(logged(t, got).Contains(truth))
			claimed += one(own == 0 && (got.Verdict == analysis.Worse || got.Verdict == analysis.Better))
			told += one(slices.Contains(contrastCodes(c), analysis.CodeDrift))
		}
		t.Logf("own drift %.1f %% a block: coverage %.1f %%, claims of nothing %.1f %%, said to change %.1f %%",
			100*own, share(covered, n), share(claimed, n), share(told, n))
		if own == 0 && (n-covered > limit(n, 0.06) || claimed > limit(n, 0.06) || told > limit(n, 0.03)) {
			t.Errorf("%d of %d intervals miss, %d claims of nothing, %d said to change", n-covered, n, claimed, told)
		}
		if own > 0 && n-covered > limit(n, 0.08) {
			t.Errorf("own drift %g: %d of %d intervals miss what the difference was", own, n-covered, n)
		}
		if own == 0.02 && told < n/4 {
			t.Errorf("of hosts that changed by themselves, only %d of %d are said to", told, n)
		}
	}
}
