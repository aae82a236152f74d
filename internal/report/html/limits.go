package html

import (
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Limits are how much of a report a page has: all of nearly every run, but not of one with 1,000 cells, whose page
// nobody could read and no mail would carry.
type limits struct {
	rows int    // of a table, and of a list
	all  string // where all of them are
}

const (
	mostRows    = 200  // of a table
	mostColumns = 61   // with that of the names
	allRows     = 1200 // of the tables of all questions
	// mostTimelines is how many cells have a table of what their timeline differs by.
	mostTimelines = 24
	leastRows     = 10
)

func newLimits(d *report.Document) *limits {
	questions := 0
	for i := range d.Metrics {
		if d.Metrics[i].Role == bench.Primary {
			questions++
		}
	}
	rows := max(leastRows, min(mostRows, allRows/max(questions, 1)))
	if d.Kind == report.Comparison {
		return &limits{rows, "tare compare RUN RUN --all and --json have all."}
	}
	return &limits{rows, "tare show RUN --all and --json have all."}
}

func (l *limits) tables(all []report.Table) (out []tableView) {
	for i := range all {
		out = append(out, l.table(&all[i]))
	}
	return out
}

// table has the rows and the columns that differ most from the baseline, and says how many others there are.
func (l *limits) table(t *report.Table) tableView {
	var rows []*report.TableRow
	for i := range t.Groups {
		for k := range t.Groups[i].Lines {
			rows = append(rows, &t.Groups[i].Lines[k])
		}
	}
	columns := make([]int, len(t.Columns))
	for i := range columns {
		columns[i] = i
	}
	keptRows := report.Farthest(rows, l.rows, func(r *report.TableRow) float64 { return r.Distance })
	keptColumns := report.Farthest(columns, mostColumns, func(i int) float64 {
		if i == 0 {
			return math.Inf(1) // the names
		}
		return t.Columns[i].Distance
	})
	if len(keptRows) == len(rows) && len(keptColumns) == len(columns) {
		return newTable(t)
	}
	v := newTable(part(t, keptRows, keptColumns))
	v.LeftOut = l.leftOut(count(len(keptRows), len(rows), "row"), count(len(keptColumns)-1, len(columns)-1, "column"))
	return v
}

// timelines are the first tables of what the cells' timelines differ by, and how many more there are.
func (l *limits) timelines(all []report.Table) (out []tableView) {
	for i := range all[:min(len(all), mostTimelines)] {
		out = append(out, l.table(unbroken(&all[i])))
	}
	if more := count(len(out), len(all), "timeline"); more != "" {
		last := &out[len(out)-1].LeftOut
		*last = strings.TrimSpace(*last + " Left out: " + more + "; tare show RUN --timeline CELL has each, and --json has all.")
	}
	return out
}

// part is some rows of a table, in their order, and some columns.
func part(t *report.Table, rows []*report.TableRow, columns []int) *report.Table {
	out := *t
	out.Columns, out.Groups = pick(t.Columns, columns), nil
	for _, g := range t.Groups {
		group := report.RowGroup{Title: g.Title}
		for i := range g.Lines {
			if len(rows) == 0 || rows[0] != &g.Lines[i] {
				continue
			}
			line := *rows[0]
			line.Cells, line.Tones, rows = pick(line.Cells, columns), pick(line.Tones, columns), rows[1:]
			group.Lines = append(group.Lines, line)
		}
		if len(group.Lines) > 0 {
			out.Groups = append(out.Groups, group)
		}
	}
	return &out
}

// pick takes some items of a list, if there is one.
func pick[T any](all []T, at []int) (some []T) {
	if all == nil {
		return nil
	}
	for _, i := range at {
		some = append(some, all[i])
	}
	return some
}

// count says how many of a kind are left out; empty where none are.
func count(kept, all int, thing string) string {
	if kept == all {
		return ""
	}
	return unit.Format(float64(all-kept), unit.Count) + " of " + unit.FormatCount(all, thing)
}

// leftOut says what a table leaves out, and where it is; empty where that is nothing.
func (l *limits) leftOut(counts ...string) string {
	counts = nonEmpty(counts)
	if len(counts) == 0 {
		return ""
	}
	return "Left out, because they differ least from the baseline: " + strings.Join(counts, ", ") + "; " + l.all
}

// lines are the first of a list, and how many more there are.
func (l *limits) lines(all []report.Line) []report.Line {
	if len(all) <= l.rows {
		return all
	}
	return append(slices.Clone(all[:l.rows]), report.Line{
		Name: unit.Format(float64(len(all)-l.rows), unit.Count) + " more", Text: []string{l.all},
	})
}

// notes are the first of a list, and how many more there are.
func (l *limits) notes(all []report.Note) []report.Note {
	if len(all) <= l.rows {
		return all
	}
	return append(slices.Clone(all[:l.rows]), report.Note{
		Text: unit.Format(float64(len(all)-l.rows), unit.Count) + " more", Hint: l.all,
	})
}

// heats is how many values the maps of a question have, about as much room as its tables take.
func (l *limits) heats() int { return 3 * l.rows }

// size is about how many bytes a table takes.
func (t *tableView) size() (bytes int) {
	const tags = 40 // of a cell
	for _, g := range t.Groups {
		for _, line := range g.Lines {
			for _, c := range line.Cells {
				bytes += len(c.Text) + len(c.Bar) + tags
			}
		}
	}
	return bytes
}
