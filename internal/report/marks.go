package report

import (
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// A markIndex says which notes a row refers to.
type markIndex struct {
	cells  map[int][]markPlace
	metric map[string][]int // of notes about a metric and no shown cell
}

type markPlace struct {
	metric string // empty = all
	mark   int
}

// of returns the marks of a cell in the table of a metric.
func (m *markIndex) of(cell int, metric string) []int {
	var out []int
	for _, p := range m.cells[cell] {
		if p.metric == "" || p.metric == metric {
			out = append(out, p.mark)
		}
	}
	return out
}

// about returns the marks of a metric, and those of the cells in its row of a matrix
// that are about it alone.
func (m *markIndex) about(metric string, rows []Row) []int {
	out := slices.Clone(m.metric[metric])
	for _, r := range rows {
		for _, p := range m.cells[r.index] {
			if p.metric == metric && !slices.Contains(out, p.mark) {
				out = append(out, p.mark)
			}
		}
	}
	return out
}

// columns marks those of a table that are named like rows, with what is about every
// metric.
func (m *markIndex) columns(t *Table, rows []Row) {
	for i := range t.Columns {
		for _, r := range rows {
			if plain.Line(r.Cell) != t.Columns[i].Name {
				continue
			}
			for _, p := range m.cells[r.index] {
				if p.metric == "" {
					t.Columns[i].Marks = append(t.Columns[i].Marks, p.mark)
				}
			}
		}
	}
}

// note numbers the warnings that tables can refer to. A warning about everything
// marks nothing.
func (d *Document) note(all []bench.Warning, short Short) *markIndex {
	shown := d.shown()
	m := &markIndex{cells: make(map[int][]markPlace), metric: make(map[string][]int)}
	mark := 0
	for _, w := range all {
		n := Note{Text: plain.Line(short.in(w.Text)), Hint: plain.Line(short.in(w.Hint))}
		about := slices.DeleteFunc(append([]string{w.Metric}, w.Also...),
			func(name string) bool { return name != "" && !shown.metric[name] })
		cells := slices.DeleteFunc(slices.Clone(w.Cells), func(c int) bool { return !shown.cell[c] })
		switch {
		case len(about) == 0:
		case w.Metric == "" && (len(cells) == 0 || len(cells) > most || len(cells) == len(shown.cell)):
		default:
			mark++
			n.Mark = mark
			m.place(about, cells, mark)
		}
		d.Notes = append(d.Notes, n)
	}
	return m
}

// place puts a mark at the cells of the metrics that it is about, or at the metrics
// where it is about no cell, or about too many.
func (m *markIndex) place(about []string, cells []int, mark int) {
	for _, name := range about {
		if len(cells) == 0 || len(cells) > most {
			m.metric[name] = append(m.metric[name], mark)
			continue
		}
		for _, c := range cells {
			m.cells[c] = append(m.cells[c], markPlace{name, mark})
		}
	}
}

// most is how many rows a note is marked at; one about more is about the table.
const most = 12

// shown says what has a row and what has a table: nothing where no trial counts.
func (d *Document) shown() (s struct {
	cell   map[int]bool
	metric map[string]bool
},
) {
	s.cell, s.metric = make(map[int]bool), make(map[string]bool)
	if d.Runs[0].Trials.OK == 0 {
		return s
	}
	for _, m := range d.Metrics {
		s.metric[m.Name] = true
		for _, c := range m.Conditions {
			for _, r := range c.Rows {
				s.cell[r.index] = true
			}
		}
	}
	return s
}
