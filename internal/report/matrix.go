package report

import (
	"slices"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// signs say what the signs of a matrix mean.
const signs = "✗ worse  ✓ better  ≠ different  = same  ? unclear or unreliable"

// matrix shows several metrics at once, a row for each and a column for each
// cell: the baseline's median, and what the others differ from it by, with a
// sign for the verdict. Where there are several conditions, each is a group.
func matrix(title, aside string, metrics []Metric, marks *markIndex) Table {
	t := Table{Title: title, Subtitle: aside, HasHeadings: true, Columns: []Column{{Name: "metric"}}}
	names, far := matrixCells(metrics), distances(metrics...)
	for _, n := range names {
		t.Columns = append(t.Columns, Column{Name: plain.Line(n), Right: true, Distance: far[n]})
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

func matrixRow(m *Metric, c *Condition, names []string, marks *markIndex) TableRow {
	row := TableRow{
		Cells: []string{plain.Line(m.Title)}, Tones: []Tone{Plain}, Marks: marks.about(m.Name, c.Rows),
		Distance: distance(c.Rows),
	}
	in := m.scale()
	for _, n := range names {
		text, tone := "", Plain
		if i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Cell == n }); i >= 0 {
			text, tone = matrixText(&c.Rows[i], in)
		}
		row.Cells, row.Tones = append(row.Cells, text), append(row.Tones, tone)
	}
	return row
}

// matrixText writes one value of a matrix.
func matrixText(r *Row, in scale) (string, Tone) {
	switch {
	case r.N == 0:
		return unit.None, Plain
	case r.Effect == nil || r.Effect.Estimate == nil:
		return in.text(r.Median), Plain
	}
	sign, tone := sign(analysis.Verdict(r.Effect.Verdict))
	return sign + " " + effectText(r.Effect, in)[0], tone
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
		return "?", Uncertain
	}
}
