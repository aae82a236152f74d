package report_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/report"
)

// TestFalseAlarmsOnTheScreen simulates whole runs in which nothing differs, as long and as
// short as people make them, and counts the screens that claim a difference. A grid has three
// conditions, whose trials in a block have something in common. Of 2000 screens each: 45, 75 and
// 69 with a claim after 9, 13 and 40 blocks, and 40 and 58 of grids after 13 and 40.
func TestFalseAlarmsOnTheScreen(t *testing.T) {
	n := analysistest.Repetitions(100, 2000)
	for _, tt := range []struct {
		blocks     int
		conditions []string
	}{
		{9, nil},
		{13, nil},
		{40, nil},
		{13, []string{"clients=1", "clients=8", "clients=64"}},
		{40, []string{"clients=1", "clients=8", "clients=64"}},
	} {
		name := fmt.Sprintf("%d blocks, %d conditions", tt.blocks, len(tt.conditions))
		claims, bounds := 0, 0
		for i := range n {
			shape := analysistest.Shape{
				Seed: uint64(i + 1), Blocks: tt.blocks, Metrics: analysistest.Lifecycle()[:6], Conditions: tt.conditions,
				Cells: []analysistest.Cell{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}},
			}
			if tt.conditions != nil {
				shape.Block = func(r *rand.Rand, _ int) float64 { return 0.05 * r.NormFloat64() }
			}
			r, err := analysis.Analyze(analysistest.Run(shape), analysis.Options{})
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
		t.Logf("%s: %d of %d screens claim a difference, %d bound one", name, claims, n, bounds)
		if most := int(math.Ceil(float64(n)*0.05 + 3.1*math.Sqrt(float64(n)*0.05*0.95))); claims > most {
			t.Errorf("%s: %d of %d screens claim a difference, want at most 5 %%", name, claims, n)
		}
		if bounds < n/2 {
			t.Errorf("%s: only %d of %d screens say how large a difference may be", name, bounds, n)
		}
	}
}

// screenKinds are the kinds of what a screen says of primary metrics.
func screenKinds(d *report.Document) (kinds []report.FindingKind) {
	for _, m := range d.Metrics {
		if m.Role != "primary" {
			continue
		}
		tables := m.Conditions
		if m.Summary != nil {
			tables = append(slices.Clone(tables), *m.Summary)
		}
		for _, c := range tables {
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
