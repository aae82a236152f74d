package figure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// row is a cell that differs by a factor; 1 is the baseline.
func row(cell string, factor float64, confirmed bool) report.Row {
	r := report.Row{
		Cell: cell, N: 9, Median: &factor, Values: report.Numbers{1, 2},
		Finding: &report.Finding{Kind: report.IsBaseline, Text: "1 s"},
	}
	if factor != 1 {
		low, high := factor*0.9, factor*1.1
		r.Effect = &report.Effect{Scale: bench.Ratio, Estimate: &factor, Low: &low, High: &high}
		r.Finding = &report.Finding{Kind: report.Unconfirmed, Text: "perhaps"}
	}
	if confirmed {
		r.Finding = &report.Finding{Kind: report.Differs, Text: fmt.Sprintf("%v× slower", factor)}
	}
	return r
}

// percentiles has a point at p50 and one at p99 for each factor; the first is the baseline.
func percentiles(factors ...float64) report.Spectrum {
	s := report.Spectrum{Metric: "latency", Title: "latency", Baseline: "c0"}
	for i, f := range factors {
		low, high := f*0.9, f*1.1
		cell := report.SpectrumCell{Cell: fmt.Sprintf("c%d", i)}
		for _, p := range []float64{0.5, 0.99} {
			point := report.SpectrumPoint{P: p, Median: f, Low: &low, High: &high}
			if i > 0 {
				point.Change = &report.Interval{Estimate: &f, Low: &low, High: &high}
			}
			cell.Points = append(cell.Points, point)
		}
		s.Cells = append(s.Cells, cell)
	}
	return s
}

// TestPercentilesFound checks that percentiles tell the largest difference that is confirmed, and that without one
// they claim nothing.
func TestPercentilesFound(t *testing.T) {
	metric := func(name string, confirmed bool) report.Metric {
		rows := []report.Row{row("c0", 1, false), row("c1", 2, confirmed), row("c2", 3, false), row("c3", 1.5, confirmed)}
		return report.Metric{Name: name, Conditions: []report.Condition{{Rows: rows}}}
	}
	for want, metrics := range map[string][]report.Metric{
		"at p99, the last percentile with a confirmed difference, c1 differs most from c0: 2× slower; " +
			"the largest ratio, which claims nothing, is that of c2 at p50, ×3.00 [×2.70, ×3.30].": {
			metric("latency.p50", true), metric("latency.p99", true),
		},
		"at p50, the last percentile": {metric("latency.p50", true), metric("latency.p99", false)},
		"no percentile has a confirmed difference from c0; the largest ratio, which claims nothing, is": {
			metric("latency.p99", false),
		},
	} {
		d := &report.Document{Metrics: metrics, Spectra: []report.Spectrum{percentiles(1, 2, 3, 1.5)}}
		f := spectra(d)[0]
		if !strings.Contains(f.Finding, want) {
			t.Errorf("%q, want %q", f.Finding, want)
		}
		if !strings.Contains(f.SVG(), escape(f.Finding)) || f.Panels[0].Finding != f.Finding {
			t.Error("the picture does not say what was found")
		}
	}
	alone := &report.Document{Spectra: []report.Spectrum{percentiles(1)}}
	if got, want := spectra(alone)[0].Finding, "latency: nothing is compared."; got != want {
		t.Errorf("of one cell: %q, want %q", got, want)
	}
}

// TestPercentilesHaveIntervals checks that each point has its interval, in the picture and in the table.
func TestPercentilesHaveIntervals(t *testing.T) {
	s := percentiles(1, 2)
	f := spectra(&report.Document{Spectra: []report.Spectrum{s}})[0]
	if n := strings.Count(f.Panels[0].body, `class="line1" stroke="#0072b2" stroke-width="1.5"/>`); n != 2 {
		t.Errorf("%d intervals of the second cell, want 2", n)
	}
	if got, want := f.Numbers.Groups[0].Lines[0].Cells[2], "2 s [1.80, 2.20], ×2.00 [×1.80, ×2.20]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// conditionsWith has a condition for each level, with cells of which the last differs most at the last level.
func conditionsWith(levels, cells int, confirmed bool) *report.Metric {
	m := &report.Metric{Name: "time", Title: "time", Unit: "s"}
	for l := range levels {
		level, number := fmt.Sprint(1<<l), float64(int(1)<<l)
		c := report.Condition{
			Condition: "clients=" + level, Baseline: "c0", Rows: []report.Row{row("c0", 1, false)},
			Levels: []report.ConditionLevel{{Key: "clients", Value: level, Number: &number}},
		}
		for i := 1; i < cells; i++ {
			c.Rows = append(c.Rows, row(fmt.Sprintf("c%d", i), 1+float64(i*l+i)/10, confirmed && l > 0))
		}
		m.Conditions = append(m.Conditions, c)
	}
	return m
}

// TestLevelsFound checks that levels tell where a cell differs most, or that nothing is confirmed.
func TestLevelsFound(t *testing.T) {
	want := "time by clients: under clients=4, c2 differs most from c0: 1.6× slower; " +
		"of its differences, 2 of 3 are confirmed."
	if f := levels(conditionsWith(3, 3, true))[0]; f.Finding != want || f.Panels[0].Finding != want {
		t.Errorf("%q and %q, want %q", f.Finding, f.Panels[0].Finding, want)
	}
	word := conditionsWith(4, 3, true)
	if word.Conditions[3].Levels[0].Number = nil; levels(word) != nil {
		t.Error("levels of which one is no number have an order")
	}
	if got := levels(conditionsWith(3, 3, false))[0].Finding; !strings.Contains(got, "no difference is confirmed") {
		t.Errorf("%q", got)
	}
}

// TestManyCells checks that a figure of more cells than it has lines for shows those that differ most, and says so.
func TestManyCells(t *testing.T) {
	factors := []float64{1, 1.1, 1.2, 2, 3, 4, 5, 6, 7, 8}
	curve := report.Curve{Metric: "start", Title: "start", Unit: "s"}
	for i, f := range factors {
		v := report.Numbers{f, 2 * f}
		curve.Cells = append(curve.Cells,
			report.CurveCell{Cell: fmt.Sprintf("c%d", i), At: []int{1, 2}, Median: v, Low: v, High: v})
	}
	many := &report.Document{Spectra: []report.Spectrum{percentiles(factors...)}, Curves: []report.Curve{curve}}
	for _, f := range append(append(spectra(many), curves(many)...), levels(conditionsWith(3, 10, true))...) {
		if want := "Not everything is drawn, but 8 of 10 cells ("; !strings.Contains(f.Caption(), want) {
			t.Errorf("%s: %q does not say %q", f.Name, f.Caption(), want)
		}
		svg := f.SVG()
		if !strings.Contains(svg, ">c0</text>") || strings.Contains(svg, ">c1</text>") != (f.Kind == Sequence) {
			t.Errorf("%s shows the wrong cells", f.Name)
		}
	}
	if n := len(many.Spectra[0].Cells) + len(many.Curves[0].Cells); n != 20 {
		t.Errorf("%d cells are left in the report", n)
	}
	few := &report.Document{Spectra: []report.Spectrum{percentiles(factors[:8]...)}}
	if f := spectra(few)[0]; f.Thinned != "" {
		t.Errorf("of 8 cells: %q", f.Thinned)
	}
}

// TestDriftFound checks what is said of the baseline's course, with and without a warning, and that a long one says
// that it is thinned.
func TestDriftFound(t *testing.T) {
	m := conditionsWith(1, 2, false)
	c := &m.Conditions[0]
	for k := range c.Rows {
		c.Rows[k].Values = nil
		for i := range 500 {
			c.Rows[k].Values = append(c.Rows[k].Values, 1+float64(i)/1000)
		}
	}
	d := &report.Document{}
	f := drift(d, m)[0]
	want := "time, clients=1, block by block: the running median of c0 stayed between 1.00 s and 1.50 s, 49.4 % apart; " +
		"no drift is claimed."
	if f.Finding != want {
		t.Errorf("%q, want %q", f.Finding, want)
	}
	if !strings.Contains(f.Thinned, "but at most 400 values of a cell;") {
		t.Errorf("%q", f.Thinned)
	}
	if n := len(f.Numbers.Groups[0].Lines); n != 2 {
		t.Errorf("%d rows of numbers, want one for each cell", n)
	}
	d.Warned = []report.Warning{{Code: analysis.CodeDrift, Metric: "time", Cells: []string{"c1 (clients=2)"}}}
	if got := drift(d, m)[0].Finding; got != want {
		t.Errorf("%q after a warning of another condition", got)
	}
	d.Warned[0].Cells[0] = "c1 (clients=1)"
	if got := drift(d, m)[0].Finding; !strings.HasSuffix(got, "; a warning says what drifted.") {
		t.Errorf("%q after a warning", got)
	}
}

// TestPlotSaysWhatIsLeftOut checks that a terminal is told of cells that are not drawn.
func TestPlotSaysWhatIsLeftOut(t *testing.T) {
	for cells, want := range map[int]bool{60: false, 61: true} {
		var b strings.Builder
		if err := Write(&b, &report.Document{Metrics: []report.Metric{*conditionsWith(1, cells, true)}}, 80); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "only 60 of 61 cells (the baseline"); got != want {
			t.Errorf("%d cells: %s", cells, b.String())
		}
	}
}
