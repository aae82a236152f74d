package report

import (
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// What one run each, or too few, show is a shift without a verdict, with how few they are.
func TestFindingApart(t *testing.T) {
	m := &Metric{Unit: "s", Better: bench.Lower, Scale: bench.Ratio}
	value, estimate, low, high := 0.001, 1.12, 1.09, 1.15
	row := func(n int, e *Effect) *Row { return &Row{N: n, Median: &value, Effect: e} }
	shift := &Effect{Scale: bench.Ratio, Estimate: &estimate, Verdict: string(analysis.TooFewRuns)}
	slower := &Effect{Scale: bench.Ratio, Estimate: &estimate, Low: &low, High: &high, Verdict: string(analysis.Worse)}
	base := row(3, nil)
	for _, tt := range []struct {
		base, row *Row
		want      Finding
	}{
		{base, base, Finding{IsBaseline, "1 ms", Plain}},
		{base, row(0, nil), Finding{NotThere, "no value", Uncertain}},
		{base, row(3, nil), Finding{NotThere, "not comparable", Uncertain}},
		{row(1, nil), row(1, shift), Finding{Unknown, "+12.0 % (1 run each)", Uncertain}},
		{base, row(3, shift), Finding{Unknown, "+12.0 % (3 runs each)", Uncertain}},
		{base, row(1, shift), Finding{Unknown, "+12.0 % (3 and 1 run)", Uncertain}},
		{base, row(6, slower), Finding{Differs, "12 % slower (9–15 %)", Bad}},
	} {
		if got := m.findingApart(tt.base, tt.row, newScale("s", []*float64{&value}), "run"); got != tt.want {
			t.Errorf("%+v, want %+v", got, tt.want)
		}
	}
}

// What hosts have measured together is measured again on all of them.
func TestAgainOnHosts(t *testing.T) {
	r := &Run{Experiment: "host", Plan: Plan{asked: []bench.Factor{{Name: "engine", Levels: []string{"docker"}}}}}
	for _, tt := range []struct {
		on   []string
		want string
	}{
		{nil, "tare run host --engine docker"},
		{[]string{"web1", "root@web2"}, "tare run host --engine docker --on web1,root@web2"},
		{[]string{"$(reboot)", "b"}, "tare run host"},
	} {
		if r.on = tt.on; r.again() != tt.want {
			t.Errorf("on %q: %q, want %q", tt.on, r.again(), tt.want)
		}
	}
}

// compared is the document of runs of one experiment that are compared.
func compared(t *testing.T, short Short, shapes ...analysistest.Shape) *Document {
	t.Helper()
	var runs []*bench.Run
	for _, s := range shapes {
		runs = append(runs, analysistest.Run(s))
	}
	c, err := analysis.Compare(runs, analysis.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return NewComparison(c, short)
}

// A comparison has one table. Where there is one cell alone, its rows are the metrics.
func TestScreenApart(t *testing.T) {
	short := func(id string) string { return "short-" + id[len(id)-2:] }
	shape := func(seed uint64, cells ...analysistest.Cell) analysistest.Shape {
		return analysistest.Shape{Seed: seed, Blocks: 8, Cells: cells}
	}
	d := compared(t, short, shape(1, analysistest.Cell{Name: "native"}), shape(2, analysistest.Cell{Name: "native"}))
	if len(d.Screen.Tables) != 1 || len(d.Screen.Tables[0].Groups) != 1 {
		t.Fatalf("%+v", d.Screen.Tables)
	}
	if g := d.Screen.Tables[0].Groups[0]; g.Title != "" || g.Lines[0].Cells[0] != "time to first instruction" {
		t.Errorf("one cell: %+v", g)
	}
	want := "Trust: low: one run each cannot tell; 5 runs of each would be enough"
	if d.Screen.Trust != want {
		t.Errorf("%q, want %q", d.Screen.Trust, want)
	}
	if got := d.Next[1].Command; got != "tare compare short-01 short-02 --all" {
		t.Errorf("next: %q", got)
	}
	two := []analysistest.Cell{{Name: "native"}, {Name: "crun", Factor: 3}}
	g := compared(t, nil, shape(1, two...), shape(2, two...)).Screen.Tables[0].Groups
	if len(g) != 2 || g[0].Title != "time to first instruction" || g[0].Lines[1].Cells[0] != "crun" {
		t.Errorf("two cells: %+v", g)
	}
}
