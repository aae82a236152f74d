package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// sayReasons puts the counters of each cell on a line, or on several where its
// metrics have different reasons.
func (d *Document) sayReasons() {
	for rest := d.Reasons; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(r Reason) bool { return r.Cell != rest[0].Cell || r.Condition != rest[0].Condition })
		if n < 0 {
			n = len(rest)
		}
		d.View.Reasons = append(d.View.Reasons, d.explain(rest[:n])...)
		rest = rest[n:]
	}
}

// explain says the reasons of one cell. Metrics that have one in common share a
// line; which they are is not said if that is all of them.
func (d *Document) explain(reasons []Reason) (lines []Line) {
	var titles [][]string // of the metrics of each line
	for _, m := range d.Metrics {
		var text []string
		for _, r := range reasons {
			if slices.ContainsFunc(r.For, func(e Explained) bool { return e.Metric == m.Name }) {
				text = append(text, r.say(d.reasonScale(r.Metric)))
			}
		}
		if text == nil {
			continue
		}
		known := func(t string) bool { return slices.Contains(text, t) }
		i := slices.IndexFunc(lines, func(l Line) bool { return slices.ContainsFunc(l.Text, known) })
		if i < 0 {
			i = len(lines)
			lines, titles = append(lines, Line{}), append(titles, nil)
		}
		for _, t := range text {
			if !slices.Contains(lines[i].Text, t) {
				lines[i].Text = append(lines[i].Text, t)
			}
		}
		titles[i] = append(titles[i], plain.Line(m.Title))
	}
	for i := range lines {
		lines[i].Name = plain.Line(qualifiedName(reasons[0].Cell, reasons[0].Condition))
		if len(lines) > 1 {
			lines[i].Name += ", " + strings.Join(titles[i], ", ")
		}
	}
	return lines
}

// say writes a reason, such as "context switches ×35.3 (112 → 3,950)".
func (r *Reason) say(in scale) string {
	from, to := in.text(&r.Baseline), in.text(&r.Value)
	how := ""
	if r.Effect.Scale == bench.Ratio && r.Effect.Estimate != nil {
		how = " " + unit.FormatRatio(*r.Effect.Estimate)
	}
	return fmt.Sprintf("%s%s (%s → %s)", plain.Line(r.Title), how, from, to)
}

// reasonScale is that of a counter, in all of its cells.
func (d *Document) reasonScale(metric string) scale {
	var values []*float64
	u := ""
	for i := range d.Reasons {
		if r := &d.Reasons[i]; r.Metric == metric {
			u, values = unitName(r.Unit), append(values, &r.Baseline, &r.Value)
		}
	}
	return newScale(u, values)
}

// qualifiedName is the name of a cell outside of the table of its condition.
func qualifiedName(cell, condition string) string {
	return analysis.CellName(&bench.Cell{Name: cell, Condition: condition})
}

// writeDataPaths says which path packets took and where data were stored.
func (d *Document) writeDataPaths() {
	for _, w := range d.DataPaths {
		l := Line{Name: plain.Line(qualifiedName(w.Cell, w.Condition))}
		if len(w.Path) > 0 {
			l.Text = append(l.Text, "packets through "+plain.Line(strings.Join(w.Path, " → ")))
		}
		if w.Data != "" {
			l.Text = append(l.Text, "data on "+plain.Line(w.Data))
		}
		d.View.DataPaths = append(d.View.DataPaths, l)
	}
}

// sayAbsent adds an unsupported cell to the others that have the same reason.
func (d *Document) sayAbsent(name, why string) {
	for i := range d.View.Absent {
		if l := &d.View.Absent[i]; l.Text[0] == why {
			l.Name += ", " + name
			return
		}
	}
	d.View.Absent = append(d.View.Absent, Line{Name: name, Text: []string{why}})
}

// sayFailures puts every trial that did not succeed into words. Of parts a note tells.
func (d *Document) sayFailures() {
	for _, f := range d.Failed {
		if f.Part != "" {
			continue
		}
		if f.Outcome == bench.Unsupported {
			d.sayAbsent(plain.Line(qualifiedName(f.Cell, f.Condition)), plain.Line(bench.BriefReason(f.Reason)))
			continue
		}
		what := fmt.Sprintf("%s %s", unit.FormatCount(f.Count, "trial"), strings.ReplaceAll(string(f.Outcome), "-", " "))
		if f.Warmup > 0 {
			what += fmt.Sprintf(" (%d while warming up)", f.Warmup)
		}
		if f.Operation != "" && !strings.HasPrefix(f.Reason, f.Operation+":") {
			what += " in " + f.Operation
		}
		if f.Reason != "" {
			what += ": " + bench.BriefReason(f.Reason)
		}
		list := &d.View.Failures
		if f.Outcome == bench.Canceled {
			list = &d.View.Canceled
		}
		*list = append(*list, Line{Name: plain.Line(qualifiedName(f.Cell, f.Condition)), Text: []string{plain.Line(what)}})
	}
}
