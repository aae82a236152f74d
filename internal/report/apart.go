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

// findApart gives each row of a comparison of runs its finding.
func (d *Document) findApart() {
	for i := range d.Metrics {
		m := &d.Metrics[i]
		in := m.scale()
		for _, c := range m.Conditions {
			for j := range c.Rows { // every cell has a row for each group
				f := m.findingApart(&c.Rows[j-j%len(d.Groups)], &c.Rows[j], in, d.Unit)
				c.Rows[j].Finding = &f
			}
		}
	}
}

// findingApart says what is known of a cell in one group; base is the same cell in the first, and word
// the unit of the comparison.
func (m *Metric) findingApart(base, r *Row, in scale, word string) Finding {
	switch e := r.Effect; {
	case r.N == 0:
		return Finding{NotThere, "no value", Uncertain}
	case r == base:
		return Finding{IsBaseline, in.text(r.Median), Plain}
	case e == nil:
		return Finding{NotThere, "not comparable", Uncertain}
	case e.Low == nil || e.High == nil:
		runs := unit.FormatCount(r.N, word) + " each"
		if base.N != r.N {
			runs = fmt.Sprintf("%d and %s", base.N, unit.FormatCount(r.N, word))
		}
		return Finding{Unknown, effectText(e, in)[0] + " (" + runs + ")", Uncertain}
	case e.Scale == bench.Difference:
		return m.amount(e, in)
	default:
		return m.ratio(e, in)
	}
}

// sayScreenApart makes what people read first of a comparison of runs. Own says that tare itself measured them,
// so that it can do so again.
func (d *Document) sayScreenApart(short Short, own bool) {
	var experiments []string
	for i := range d.Runs {
		if t := title(&d.Runs[i]); !slices.Contains(experiments, t) {
			experiments = append(experiments, t)
		}
	}
	groups := d.headings()
	how := " in separate runs, against "
	if analysis.Unit(d.Unit) == analysis.UnitBlock {
		how = " on several hosts at the same times, against "
	}
	d.Screen.Title = strings.Join(experiments, ", ") + how + d.Groups[0].letter(groupLetter(0), &d.Runs[0])
	rest := d.Runs
	for i, g := range d.Groups {
		d.Screen.Sides = append(d.Screen.Sides, g.side(groupLetter(i), rest[:len(g.Runs)], short))
		rest = rest[len(g.Runs):]
	}
	for _, w := range d.Warned {
		switch {
		case isRemark(w.Code):
			d.Screen.Remarks = append(d.Screen.Remarks, plain.Line(short.in(w.Text)))
		case w.Code == analysis.CodeFewRuns && own:
			d.Next = append(d.Next, Step{d.Runs[0].again(), plain.Line(short.in(w.Hint))})
		}
	}
	d.Screen.Tables = []Table{d.screenApart(groups)}
	d.Screen.Trust = d.trustText()
	d.Next = append(d.Next, Step{
		"tare compare " + d.compared(short) + " --all", d.withWarnings("intervals, all metrics, effects within each run"),
	})
}

// isRemark reports whether people read a comparison's warning before its table.
func isRemark(code string) bool {
	return code == analysis.CodeNotApart || code == analysis.CodeOtherExperiment
}

// compared names the runs of a comparison as its user can. A command with very many would be no help.
func (d *Document) compared(short Short) string {
	const most = 8
	if len(d.Runs) > most {
		return "RUN..."
	}
	var names []string
	for i := range d.Runs {
		names = append(names, short.name(&d.Runs[i]))
	}
	return strings.Join(names, " ")
}

// hostWords are the machine's name and its kernel, as far as they are known.
func hostWords(h *bench.HostFacts) (words []string) {
	if h.Hostname != "" {
		words = append(words, plain.Line(h.Hostname))
	}
	if h.Kernel != "" {
		words = append(words, plain.Line("Linux "+h.Kernel))
	}
	return words
}

// side says which runs a group is.
func (g *Group) side(letter string, runs []Run, short Short) []string {
	what := unit.FormatCount(len(runs), "run")
	if len(runs) == 1 {
		what = short.id(&runs[0])
	}
	parts := []string{g.letter(letter, &runs[0]) + ": " + what}
	var days []string
	for i := range runs {
		h := &runs[i].Host
		for _, part := range hostWords(h) {
			if !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
		days = append(days, runs[i].Began.Format(time.DateOnly))
	}
	slices.Sort(days)
	if days = slices.Compact(days); len(days) > 1 {
		days = []string{days[0] + " to " + days[len(days)-1]}
	}
	return append(parts, days...)
}

// screenApart is the one table: a row for each cell under each metric, a column for each group. If there is one
// cell, the rows are metrics, under the parts of a survey that has several of each.
func (d *Document) screenApart(groups []string) Table {
	t := screenColumns("", groups)
	single := !slices.ContainsFunc(d.Metrics, func(m Metric) bool {
		return m.Role == bench.Primary && (len(m.Conditions) != 1 || len(m.Conditions[0].Rows) > len(groups))
	})
	byPart := single && d.hasLargeParts()
	for _, m := range d.Metrics {
		if m.Role != bench.Primary {
			continue
		}
		title := ""
		switch {
		case byPart:
			title = m.part()
		case !single:
			title = m.Title
		}
		if n := len(t.Groups); n == 0 || !single || t.Groups[n-1].Title != plain.Line(title) {
			t.Groups = append(t.Groups, RowGroup{Title: plain.Line(title)})
		}
		g := &t.Groups[len(t.Groups)-1]
		for _, c := range m.Conditions {
			for rows := range slices.Chunk(c.Rows, len(groups)) {
				label := plain.Line(m.Title)
				if !single {
					label = plain.Line(qualifiedName(rows[0].Cell, c.Condition))
				}
				line := TableRow{Cells: []string{label}, Tones: []Tone{Plain}, Distance: distance(rows)}
				for i := range rows {
					line.Cells, line.Tones = append(line.Cells, rows[i].Finding.Text), append(line.Tones, rows[i].Finding.tone)
				}
				g.Lines = append(g.Lines, line)
			}
		}
	}
	return t
}

// part is the part of a survey that a metric belongs to, if it is of a survey.
func (m *Metric) part() string {
	part, _, _ := strings.Cut(m.Name, ".")
	return part
}

// hasLargeParts reports whether the parts of a survey have two primary metrics or more, in the mean.
func (d *Document) hasLargeParts() bool {
	metrics, parts := 0, map[string]bool{}
	for _, m := range d.Metrics {
		if m.Role == bench.Primary {
			metrics++
			parts[m.part()] = true
		}
	}
	return len(parts) > 1 && metrics >= 2*len(parts)
}
