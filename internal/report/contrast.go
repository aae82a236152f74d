package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// sayComparison puts a comparison of runs into words.
func (d *Document) sayComparison(short Short) {
	var letters []string
	for i := range d.Groups {
		letters = append(letters, groupLetter(i))
	}
	d.Head = [][]string{{"comparison", strings.Join(letters[1:], ", ") + " against A", d.unitText()}}
	run := 0
	for i, g := range d.Groups {
		for range g.Runs {
			r := &d.Runs[run]
			d.Head = append(d.Head, runHead(g.letter(groupLetter(i), r), r))
			run++
		}
	}
	primary, groups := 0, d.headings()
	for _, m := range d.Metrics {
		in := m.scale()
		tables, comparisons := []Table{contrastTable(&m, groups, in, in.formatPair)}, m.comparisons()
		if own := m.inRun(); own != nil {
			tables = append(tables, contrastTable(own, groups, in, own.effectPairFormat(in)))
			comparisons += own.comparisons()
		}
		if m.Role == bench.Primary {
			d.Tables = append(d.Tables, tables...)
			primary += comparisons
		} else {
			d.Details, d.DetailTables = append(d.Details, tables[0]), append(d.DetailTables, tables...)
		}
	}
	if intervals(d.Tables) {
		d.Legend = legend(primary, d.Tables,
			d.pairsText())
	}
	for _, w := range d.Warned {
		d.Notes = append(d.Notes, Note{Text: plain.Line(short.in(w.Text)), Hint: plain.Line(short.in(w.Hint))})
	}
}

// unitText says what a value of a comparison is.
func (d *Document) unitText() string {
	if analysis.Unit(d.Unit) == analysis.UnitBlock {
		return "blocks that were measured at the same time are paired"
	}
	return "each value is one " + d.Unit
}

// pairsText says where the changes of a comparison come from.
func (d *Document) pairsText() string {
	if analysis.Unit(d.Unit) == analysis.UnitBlock {
		return "changes come from pairs of blocks that were measured at the same time, not from the medians"
	}
	return "changes come from pairs of " + d.Unit + "s, one of each group, not from the medians"
}

// groupLetter is what a group is called in a table: A, B, …, Z, A1, B1, …
func groupLetter(i int) string {
	s := string(rune('A' + i%26))
	if i >= 26 {
		s += fmt.Sprint(i / 26)
	}
	return s
}

// runHead is one line about one of the runs.
func runHead(letter string, r *Run) []string {
	wall := time.Duration(r.Wall * float64(time.Second)).Round(100 * time.Millisecond)
	parts := append([]string{letter + ": " + plain.Line(r.ID), plain.Line(r.Experiment)}, hostWords(&r.Host)...)
	return append(parts,
		fmt.Sprintf("%s in %s", unit.FormatCount(r.Blocks, "block"), unit.FormatDuration(wall)),
		r.Began.Format(time.DateOnly))
}

// inRun is the metric in another view: what cells differ by from the baseline of their
// own run; nil if none does.
func (m *Metric) inRun() *Metric {
	in := *m
	in.Conditions = nil
	for _, c := range m.Conditions {
		own := Condition{Condition: c.Condition, Baseline: c.Baseline}
		for _, r := range c.Rows {
			if r.InRun == nil {
				continue
			}
			in.Title = m.Title + ", against " + r.InRun.Baseline + " of the same run"
			own.Rows = append(own.Rows, Row{
				Cell: r.Cell, Group: r.Group, N: r.InRun.N,
				Median: r.InRun.Median, Low: r.InRun.Low, High: r.InRun.High, Effect: r.InRun.Effect,
			})
		}
		if len(own.Rows) > 0 {
			in.Conditions = append(in.Conditions, own)
		}
	}
	if in.comparisons() == 0 {
		return nil
	}
	return &in
}

// A pairFormat writes a value of the first group and one of another.
type pairFormat func(a, b *float64) [2]string

// formatPair writes values of the metric.
func (s scale) formatPair(a, b *float64) [2]string { return [2]string{s.text(a), s.text(b)} }

// effectPairFormat writes what a cell differs by from a baseline: two ratios alike, or two
// differences.
func (m *Metric) effectPairFormat(in scale) pairFormat {
	return func(a, b *float64) [2]string {
		switch {
		case a == nil || b == nil:
			return [2]string{unit.None, unit.None}
		case m.Scale == bench.Difference:
			s := in.difference(*a, *b)
			return [2]string{withSign(s.Format(*a)), withSign(s.Format(*b))}
		default:
			return [2]string(unit.FormatRatios(*a, *b))
		}
	}
}

// contrastTable has a row for each cell and group but the first.
func contrastTable(m *Metric, groups []string, in scale, text pairFormat) Table {
	t := Table{
		Title: plain.Line(m.Title), Subtitle: subtitle(m), HasHeadings: true,
		Columns: []Column{{Name: "cell"}, {Name: groups[0], Right: true}},
	}
	several := len(groups) > 2
	if several {
		t.Columns = append(t.Columns, Column{Name: "group"}, Column{Name: "median", Right: true})
	} else {
		t.Columns = append(t.Columns, Column{Name: groups[1], Right: true})
	}
	t.Columns = append(t.Columns, Column{Name: "change"})
	if m.hasIntervals() {
		t.Columns = append(t.Columns, Column{Name: intervalColumn})
	}
	t.Columns = append(t.Columns, Column{Name: "verdict"})
	for _, c := range m.Conditions {
		g := RowGroup{Title: plain.Line(c.Condition)}
		for i := range c.Rows { // every cell has a row for each group
			n := i % len(groups)
			if n == 0 {
				continue
			}
			base, r := &c.Rows[i-n], &c.Rows[i]
			values := text(base.Median, r.Median)
			cells := []string{plain.Line(r.Cell), values[0]}
			if several {
				cells = append(cells, groups[n])
			}
			line := TableRow{Cells: append(cells, values[1]), Distance: r.Distance()}
			line.addEffect(m, base, r, in)
			g.Lines = append(g.Lines, line)
		}
		t.Groups = append(t.Groups, g)
	}
	return t
}

// hasIntervals reports whether any effect of the metric has an interval.
func (m *Metric) hasIntervals() bool {
	return slices.ContainsFunc(m.tables(), func(c Condition) bool {
		return slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Effect != nil && r.Effect.Low != nil })
	})
}

// addEffect ends a row with what a cell differs by from the same cell of the first group.
func (row *TableRow) addEffect(m *Metric, base, r *Row, in scale) {
	text, verdict := [2]string{unit.None, ""}, ""
	if r.Effect != nil {
		text = effectText(r.Effect, in)
		verdict, row.Tone = verdictText(m, r.Effect)
		if analysis.Verdict(r.Effect.Verdict) == analysis.TooFewRuns && base.N == 1 && r.N == 1 {
			verdict = "one run each: no verdict"
		}
	}
	row.Cells = append(row.Cells, text[0])
	if m.hasIntervals() {
		row.Cells = append(row.Cells, text[1])
	}
	row.Cells = append(row.Cells, verdict)
}
