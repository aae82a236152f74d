package html

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// TestLimits checks that a table keeps the rows and columns that are farthest from the baseline, in their groups and
// their order, and tells what it leaves out.
func TestLimits(t *testing.T) {
	l := newLimits(&report.Document{})
	table := &report.Table{Columns: []report.Column{{Name: "metric"}}, Groups: make([]report.RowGroup, 3)}
	for k := range 99 {
		table.Columns = append(table.Columns, report.Column{Name: fmt.Sprint("c", k), Distance: float64(k)})
	}
	for i := range 450 {
		row := report.TableRow{Cells: []string{fmt.Sprint("r", i)}, Tones: make([]report.Tone, 100)}
		for k := range 99 {
			row.Cells = append(row.Cells, fmt.Sprintf("r%d c%d", i, k))
		}
		if i < 300 {
			row.Distance = float64(i % 150)
		}
		g := &table.Groups[i/150]
		g.Lines = append(g.Lines, row)
	}
	v := l.table(table)
	want := "Left out, because they differ least from the baseline: 250 of 450 rows, 39 of 99 columns; " +
		"tare show RUN --all and --json have all."
	if v.LeftOut != want || len(v.Groups) != 2 || len(v.Columns) != 61 {
		t.Errorf("%d groups, %d columns, %q, want %q", len(v.Groups), len(v.Columns), v.LeftOut, want)
	}
	for i, g := range v.Groups {
		first, last := g.Lines[0].Cells, g.Lines[len(g.Lines)-1].Cells
		got := strings.Join([]string{first[0].Text, first[1].Text, last[0].Text, last[60].Text}, ", ")
		if want := fmt.Sprintf("r%d, r%d c39, r%d, r%d c98", 150*i+50, 150*i+50, 150*i+149, 150*i+149); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if v := l.table(&report.Table{Columns: table.Columns[:3]}); v.LeftOut != "" {
		t.Errorf("of a small table: %q", v.LeftOut)
	}
	lines := l.lines(make([]report.Line, 1234))
	if last := lines[len(lines)-1]; len(lines) != 201 || last.Name != "1,034 more" || last.Text[0] != l.all {
		t.Errorf("%d lines, the last one %+v", len(lines), last)
	}
}

// TestLimitsOfManyQuestions checks that more questions have fewer rows each.
func TestLimitsOfManyQuestions(t *testing.T) {
	for questions, want := range map[int]int{0: 200, 6: 200, 12: 100, 1000: 10} {
		d := &report.Document{Metrics: make([]report.Metric, questions)}
		for i := range d.Metrics {
			d.Metrics[i].Role = bench.Primary
		}
		if got := newLimits(d).rows; got != want {
			t.Errorf("%d questions: %d rows, want %d", questions, got, want)
		}
	}
}

// TestManyHeats checks that a grid of many cells has maps of those that differ most, and says so.
func TestManyHeats(t *testing.T) {
	m := report.Metric{Title: "time"}
	for i := range 6 {
		c := report.Condition{Baseline: "base", Levels: []report.ConditionLevel{
			{Key: "scale", Value: fmt.Sprint(i / 3)}, {Key: "clients", Value: fmt.Sprint(i % 3)},
		}}
		for k := range 150 {
			factor := 1 + float64(k)
			c.Rows = append(c.Rows, report.Row{Cell: fmt.Sprint("c", k), Effect: &report.Effect{Estimate: &factor}})
		}
		m.Conditions = append(m.Conditions, c)
	}
	all := heats(&m, newLimits(&report.Document{}))
	if len(all) != 100 || !strings.Contains(all[0].Title, "of c50 ") || all[0].LeftOut != "" ||
		!strings.Contains(all[99].LeftOut, ": 50 of 150 cells; ") {
		t.Errorf("%d maps, the first one %q, the last one says %q", len(all), all[0].Title, all[len(all)-1].LeftOut)
	}
}
