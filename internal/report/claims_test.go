package report_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/report"
)

// TestFalseAlarmsOnTheScreen simulates whole runs in which nothing differs, as long and as
// short as people make them, and counts the screens that claim a difference.
func TestFalseAlarmsOnTheScreen(t *testing.T) {
	n := 100
	if os.Getenv("TARE_PROOFS") != "" {
		n = 2000
	}
	for _, blocks := range []int{9, 13, 40} {
		claims, bounds := 0, 0
		for i := range n {
			run := analysistest.Run(analysistest.Shape{
				Seed: uint64(i + 1), Blocks: blocks, Metrics: analysistest.Lifecycle()[:6],
				Cells: []analysistest.Cell{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}},
			})
			r, err := analysis.Analyze(run, analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			kinds := screenKinds(report.New(r, nil))
			if slices.Contains(kinds, report.Differs) {
				claims++
			}
			if slices.Contains(kinds, report.AtMost) || slices.Contains(kinds, report.IsSame) {
				bounds++
			}
		}
		t.Logf("%d blocks: %d of %d screens claim a difference, %d bound one", blocks, claims, n, bounds)
		if most := int(math.Ceil(float64(n)*0.05 + 3.1*math.Sqrt(float64(n)*0.05*0.95))); claims > most {
			t.Errorf("%d blocks: %d of %d screens claim a difference, want at most 5 %%", blocks, claims, n)
		}
		if bounds < n/2 {
			t.Errorf("%d blocks: only %d of %d screens say how large a difference may be", blocks, bounds, n)
		}
	}
}

// screenKinds are the kinds of what a screen says of primary metrics.
func screenKinds(d *report.Document) (kinds []report.FindingKind) {
	for _, m := range d.Metrics {
		if m.Role != "primary" {
			continue
		}
		for _, c := range m.Conditions {
			for _, r := range c.Rows {
				kinds = append(kinds, r.Finding.Kind)
			}
		}
	}
	if len(kinds) == 0 {
		panic(fmt.Sprintf("nothing primary in %d metrics", len(d.Metrics)))
	}
	return kinds
}
