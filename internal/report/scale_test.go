package report_test

import (
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// TestPrefixes checks that a column has one prefix under all conditions, unless
// its values are too far apart for one.
func TestPrefixes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		factor float64
		units  string
	}{
		{"near", 40, "ms ms ms ms"},
		{"far", 4000, "ms s ms s"},
	} {
		run := func() []*bench.Run {
			return []*bench.Run{analysistest.Run(analysistest.Shape{
				Seed: 1, Blocks: 8, Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: tt.factor}},
				Conditions: []string{"x=1", "x=2"}, Metrics: analysistest.Lifecycle()[:1],
			})}
		}
		var units []string
		for _, g := range (state{name: tt.name, runs: run}).document(t).Tables[0].Groups[:2] {
			for _, line := range g.Lines {
				_, u, _ := strings.Cut(line.Cells[1], " ")
				units = append(units, u)
			}
		}
		if got := strings.Join(units, " "); got != tt.units {
			t.Errorf("%s: units %q, want %q", tt.name, got, tt.units)
		}
	}
}

// TestNothingToShow checks that a run without a block that counts has no tables
// of dashes, and no word about verdicts.
func TestNothingToShow(t *testing.T) {
	for _, s := range states() {
		if s.name != "all-failed" && s.name != "empty" {
			continue
		}
		d := s.document(t)
		if len(d.Tables) > 0 || len(d.Details) > 0 || d.Legend != "" {
			t.Errorf("%s: tables %v and %v, legend %q; want none", s.name, d.Tables, d.Details, d.Legend)
		}
		if s.name == "all-failed" && len(d.Words.Failures) == 0 {
			t.Errorf("%s: the failures are not shown", s.name)
		}
	}
}
