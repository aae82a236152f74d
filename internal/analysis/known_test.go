package analysis_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// Where a part was left out, nobody is told how many blocks would settle its metrics,
// and what is counted of all parts together is no reason in blocks that lack some.
func TestPartsLeftOut(t *testing.T) {
	const first, faults = 0, 7 // metrics
	for _, left := range []bool{false, true} {
		run := analysistest.Run(analysistest.Shape{Seed: 8821, Blocks: 60, Cells: []analysistest.Cell{{Name: "native"}, {Name: "runc"}, {Name: "docker", Factor: 3}}})
		for i := range run.Samples {
			s := &run.Samples[i]
			if s.Trial.Cell == 1 {
				s.Values[first] *= 1 + 0.05*float64(s.Trial.Block%2*2-1) // not settled
			}
			s.Values[faults] = 100 + float64(s.Trial.Seq%7)
			if s.Trial.Block < 20 {
				continue
			}
			s.Values[first] = math.NaN()
			if s.Trial.Cell == 2 {
				s.Values[faults] *= 4
			}
			if left {
				s.Trial.Block += 5 // some blocks may have no trial that counts
				s.Notes = []string{bench.NoteKnown + ": start"}
			}
		}
		r := analyze(t, run)
		told := slices.ContainsFunc(r.Metrics[first].Conditions[0].Cells, func(c analysis.CellResult) bool {
			return c.Comparison != nil && c.Comparison.Verdict == analysis.Unclear && c.Comparison.Blocks > 0
		})
		blamed := slices.ContainsFunc(r.Reasons, func(r analysis.Reason) bool { return r.Metric.Name == "host.page_faults" })
		if told == left || blamed == left {
			t.Errorf("left out %v: number of blocks told %v, page faults blamed %v", left, told, blamed)
		}
		at := slices.IndexFunc(r.Warnings, func(w bench.Warning) bool { return w.Code == analysis.CodeKnown })
		if (at >= 0) != left || left && !strings.Contains(r.Warnings[at].Text, "start (20)") {
			t.Errorf("left out %v: warnings %v", left, r.Warnings)
		}
	}
}
