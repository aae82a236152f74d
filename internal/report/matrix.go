package report

import (
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/plain"
	"github.com/tare-bench/tare/internal/unit"
)

// signs say what the signs of a matrix mean.
const signs = "✗ worse  ✓ better  ≠ different  = same  ? not settled"

// matrix shows several metrics at once, a row for each and a column for each
// cell: the baseline's median, and what the others differ from it by, with a
// sign for the verdict. Where there are several conditions, each is a group.
func matrix(title, aside string, metrics []Metric, marks *marking) Table {
	t := Table{Title: title, Aside: aside, Headed: true, Columns: []Column{{Name: "metric"}}}
	names := matrixCells(metrics)
	for _, n := range names {
		t.Columns = append(t.Columns, Column{Name: plain.Line(n), Right: true})
	}
	for i, c := range metrics[0].Conditions {
		g := RowGroup{}
		if len(metrics[0].Conditions) > 1 {
			g.Title = plain.Line(c.Condition)
		}
		for _, m := range metrics {
			g.Lines = append(g.Lines, matrixRow(&m, &m.Conditions[i], names, marks))
		}
		t.Groups = append(t.Groups, g)
	}
	return t
}

// matrixCells lists the cells under any condition, baselines first.
func matrixCells(metrics []Metric) []string {
	var names []string
	for _, m := range metrics {
		for _, c := range m.Conditions {
			for _, r := range c.Rows {
				if !slices.Contains(names, r.Cell) {
					names = append(names, r.Cell)
				}
			}
		}
	}
	base := metrics[0].Conditions[0].Baseline
	slices.SortStableFunc(names, func(a, b string) int { return order(a == base) - order(b == base) })
	return names
}

func order(first bool) int {
	if first {
		return 0
	}
	return 1
}

func matrixRow(m *Metric, c *Condition, names []string, marks *marking) TableRow {
	row := TableRow{Cells: []string{plain.Line(m.Title)}, Tones: []Tone{Plain}, Marks: marks.about(m.Name, c.Rows)}
	base := c.base()
	for _, n := range names {
		text, tone := "", Plain
		if i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Cell == n }); i >= 0 {
			text, tone = matrixText(&c.Rows[i], base, unitName(m.Unit))
		}
		row.Cells, row.Tones = append(row.Cells, text), append(row.Tones, tone)
	}
	return row
}

// base is the median of the baseline; 0 where it has none.
func (c *Condition) base() float64 {
	for _, r := range c.Rows {
		if r.Effect == nil && r.Median != nil {
			return *r.Median
		}
	}
	return 0
}

// matrixText writes one value of a matrix.
func matrixText(r *Row, base float64, of string) (string, Tone) {
	switch {
	case r.N == 0:
		return unit.None, Plain
	case r.Effect == nil || r.Effect.Estimate == nil:
		return unit.Format(*r.Median, of), Plain
	}
	sign, tone := sign(analysis.Verdict(r.Effect.Verdict))
	return sign + " " + effectText(r.Effect, besideMedian(base, *r.Effect.Estimate, of))[0], tone
}

// besideMedian is the scale of a difference in the row of a median: with its prefix,
// unless the difference is too small to be read with that.
func besideMedian(median, difference float64, of string) scale {
	if math.Abs(difference) < math.Abs(median)/1000 || median == 0 {
		return scale{unit: of, all: unit.Scale(of, difference)}
	}
	return scale{unit: of, all: unit.Scale(of, median)}
}

func sign(v analysis.Verdict) (string, Tone) {
	switch v {
	case analysis.Worse:
		return "✗", Bad
	case analysis.Better:
		return "✓", Good
	case analysis.Different:
		return "≠", Plain
	case analysis.Same:
		return "=", Plain
	default:
		return "?", Doubtful
	}
}
