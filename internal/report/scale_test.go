package report_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		if s.name == "all-failed" && len(d.View.Failures) == 0 {
			t.Errorf("%s: the failures are not shown", s.name)
		}
	}
}

// TestOneUnitInARow checks that a difference has the unit of the median beside it,
// whatever other rows have, unless it is far smaller.
func TestOneUnitInARow(t *testing.T) {
	metrics := analysistest.Lifecycle()[:2]
	metrics[1].Name, metrics[1].Role, metrics[1].Scale = "time.sd", bench.Detail, bench.Difference
	run := analysistest.Run(analysistest.Shape{
		Seed: 1, Blocks: 8, Cells: []analysistest.Cell{{Name: "a"}, {Name: "b"}},
		Conditions: []string{"x=1", "x=2", "x=3"}, Metrics: metrics,
	})
	base, more := map[string]float64{
		"x=1": 495e-6, "x=2": 5.08e-3, "x=3": 2,
	}, map[string]float64{"x=1": 245e-6, "x=2": 3.093e-3, "x=3": 7e-6}
	for i := range run.Samples {
		s := &run.Samples[i]
		c := run.Header.Plan.Cells[s.Trial.Cell]
		s.Values[1] = base[c.Condition]
		if c.Name == "b" {
			s.Values[1] += more[c.Condition]
		}
	}
	d := (state{name: "units", runs: func() []*bench.Run { return []*bench.Run{run} }}).document(t)
	var got []string
	for _, g := range d.Details[0].Groups {
		got = append(got, g.Lines[0].Cells[1:]...)
	}
	want := []string{"495 µs", "✗ +245 µs", "5.08 ms", "✗ +3.09 ms", "2 s", "= +7.00 µs"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOneUnitInAReport checks that a value is written alike in the summary and in the table
// of its metric, whatever the other cells have.
func TestOneUnitInAReport(t *testing.T) {
	run := survey()
	for i := range run.Samples {
		s := &run.Samples[i]
		s.Values[3] *= 80 // 784 µs, and 1.25 ms
		s.Values[4] *= 0.5
		if s.Trial.Cell == 4 {
			s.Values[4] *= 0.5 // 1.44 GiB/s, and 0.5 GiB/s
		}
	}
	d := (state{name: "units", runs: func() []*bench.Run { return []*bench.Run{run} }}).document(t)
	checked := 0
	for _, table := range d.Tables[1:] {
		for _, row := range d.Tables[0].Groups[0].Lines {
			if row.Cells[0] != table.Title {
				continue
			}
			checked++
			if glance, own := row.Cells[1], table.Groups[0].Lines[0].Cells[1]; glance != own {
				t.Errorf("%s: %s in the summary, %s in its table", table.Title, glance, own)
			}
		}
	}
	if checked != 5 {
		t.Errorf("%d metrics are in both, want 5", checked)
	}
}

// TestNoNoise checks that what is no noise for people is none.
func TestNoNoise(t *testing.T) {
	for size, want := range map[float64]string{1e-8: "noise ±0 %", 1e-3: "noise ±0.1"} {
		d := (state{name: "quiet", runs: func() []*bench.Run {
			return []*bench.Run{analysistest.Run(analysistest.Shape{
				Seed: 1, Blocks: 8, Cells: []analysistest.Cell{{Name: "a"}, {Name: "b"}}, Metrics: analysistest.Lifecycle()[:1],
				Noise: func(r *rand.Rand) float64 { return size * r.NormFloat64() },
			})}
		}}).document(t)
		if got := d.Tables[0].Subtitle; !strings.Contains(got, want) {
			t.Errorf("noise of %v: %q, want %q", size, got, want)
		}
	}
}
