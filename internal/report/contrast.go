package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/plain"
	"github.com/tare-bench/tare/internal/unit"
)

// sayComparison puts a comparison of runs into words.
func (d *Document) sayComparison() {
	var letters []string
	for i := range d.Groups {
		letters = append(letters, letter(i))
	}
	d.Head = [][]string{{"comparison", strings.Join(letters[1:], ", ") + " against A"}}
	if d.Unit == "run" {
		d.Head[0] = append(d.Head[0], "one value is one run")
	}
	run := 0
	for i, g := range d.Groups {
		for range g.Runs {
			d.Head = append(d.Head, runHead(letter(i), &d.Runs[run]))
			run++
		}
	}
	primary := 0
	for _, m := range d.Metrics {
		t := contrastTable(&m, d.Groups)
		if m.Role == bench.Primary {
			d.Tables = append(d.Tables, t)
			primary += m.comparisons()
		} else {
			d.Details = append(d.Details, t)
		}
	}
	d.Legend = legend(primary, d.Tables, "ratios are of each "+d.Unit+" of one side with each of the other, not of the medians")
	for _, w := range d.Warned {
		d.Notes = append(d.Notes, Note{Text: plain.Line(w.Text), Hint: plain.Line(w.Hint)})
	}
}

// letter is what a group is called in a table: A, B, …, Z, A1, B1, …
func letter(i int) string {
	s := string(rune('A' + i%26))
	if i >= 26 {
		s += fmt.Sprint(i / 26)
	}
	return s
}

// runHead is one line about one of the runs.
func runHead(letter string, r *Run) []string {
	wall := time.Duration(r.Wall * float64(time.Second)).Round(100 * time.Millisecond)
	return []string{
		letter + ": " + plain.Line(r.ID), plain.Line(r.Experiment), plain.Line(r.Host.Hostname), plain.Line("Linux " + r.Host.Kernel),
		fmt.Sprintf("%s in %s", unit.FormatCount(r.Blocks, "block"), unit.FormatDuration(wall)), r.Began.Format(time.DateOnly),
	}
}

// contrastTable has a row for each cell and group but the first.
func contrastTable(m *Metric, groups []Group) Table {
	t := Table{
		Title: plain.Line(m.Title), Aside: aside(m), Headed: true,
		Columns: []Column{{Name: "cell"}, {Name: "A", Right: true}},
	}
	several := len(groups) > 2
	if several {
		t.Columns = append(t.Columns, Column{Name: "group"}, Column{Name: "median", Right: true})
	} else {
		t.Columns = append(t.Columns, Column{Name: "B", Right: true})
	}
	t.Columns = append(t.Columns, Column{Name: "change"}, Column{Name: intervalColumn}, Column{Name: "verdict"})
	in := scales{m.medians(), m.effects()}
	for _, c := range m.Conditions {
		g := RowGroup{Title: plain.Line(c.Condition)}
		for i := range c.Rows { // every cell has a row for each group
			if n := i % len(groups); n > 0 {
				g.Lines = append(g.Lines, contrastRow(m, &c.Rows[i-n], &c.Rows[i], in, letter(n), several))
			}
		}
		t.Groups = append(t.Groups, g)
	}
	return t
}

// contrastRow compares one cell in two groups.
func contrastRow(m *Metric, base, r *Row, in scales, group string, several bool) TableRow {
	row := TableRow{Cells: []string{plain.Line(r.Cell), in.median.text(base.Median)}}
	if several {
		row.Cells = append(row.Cells, group)
	}
	row.Cells = append(row.Cells, in.median.text(r.Median))
	if r.Effect == nil {
		row.Cells = append(row.Cells, unit.None, "", "")
		return row
	}
	text := effectText(r.Effect, in.effect)
	verdict, tone := verdictText(m, r.Effect)
	row.Cells = append(row.Cells, text[0], text[1], verdict)
	row.Tone = tone
	return row
}
