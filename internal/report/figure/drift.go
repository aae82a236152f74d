package figure

import (
	"math"
	"slices"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
)

const (
	driftHeight = 120
	leftSpace   = 62 // for the numbers of a vertical axis
)

// drift shows, under each condition, values in order of execution: a panel for the baseline,
// whose values show what the machine did, and one for the changes of each cell, which ought to
// stay level.
func drift(m *report.Metric) (all []Figure) {
	for i := range m.Conditions {
		c := &m.Conditions[i]
		rows := shownRows(c)
		if len(rows) == 0 || len(rows[0].Values) < 3 {
			continue
		}
		f := Figure{
			Name: named(m.Name, c.Condition, "drift"), Kind: Drift, Metric: m.Name,
			Title: under(m.Title, c.Condition) + ", block by block",
			Finding: under(m.Title, c.Condition) + ", block by block: values in order of execution. The line is the " +
				"median of five blocks. A cross is a block without a value.",
		}
		for _, r := range rows {
			f.Panels = append(f.Panels, driftPanel(m, c, r))
		}
		all = append(all, f)
	}
	return all
}

// driftPanel shows the values of the baseline, or the changes of another cell.
func driftPanel(m *report.Metric, c *report.Condition, r *report.Row) Panel {
	values, title := []float64(r.Values), label(r)
	y := valueAxis(values, unitOf(m), driftHeight-20, 26, 3)
	if r.Effect != nil && r.Effect.Changes != nil {
		values, title = r.Effect.Changes, label(r)+" against "+plain.Line(c.Baseline)
		if r.Effect.Scale == bench.Difference {
			y = valueAxis(values, unitOf(m), driftHeight-20, 26, 3)
		} else {
			y = changeAxis(values, driftHeight-20, 26)
		}
	}
	x := axis{from: 0, to: math.Max(float64(len(values)-1), 1), lo: leftSpace, hi: width - margin}
	var b canvas
	b.text(margin, 14, left, words, normal, shorten(title, 48))
	b.vertical(&y, leftSpace, width-margin)
	if r.Effect != nil && y.from <= nothing(r.Effect) && y.to >= nothing(r.Effect) {
		b.line(leftSpace, y.at(nothing(r.Effect)), width-margin, y.at(nothing(r.Effect)), none, 1)
	}
	var points []point
	for i, v := range values {
		switch {
		case math.IsNaN(v):
			b.cross(x.at(float64(i)), driftHeight-20, bad)
		case len(values) <= maxPoints || i%(len(values)/maxPoints+1) == 0:
			points = append(points, point{x.at(float64(i)), y.at(v)})
		}
	}
	b.dots(points, 3.2, muted)
	b.polyline(running(&x, &y, values), words, 1.5, "")
	b.text(width-margin, driftHeight-6, right, muted, small, "block "+strconv.Itoa(len(values)))
	b.text(leftSpace, driftHeight-6, left, muted, small, "block 1")
	return Panel{
		Title: under(m.Title, c.Condition) + " of " + title + ", block by block", Finding: findingText(r),
		Width: width, Height: driftHeight, body: b.String(),
	}
}

// running is the median of five values around each.
func running(x, y *axis, values []float64) (line []point) {
	const around, most = 2, 100 // a line needs fewer points than there are values
	step := len(values)/most + 1
	for i := around; i < len(values)-around; i += step {
		var near []float64
		for _, v := range values[i-around : i+around+1] {
			if !math.IsNaN(v) {
				near = append(near, v)
			}
		}
		if len(near) > 0 {
			slices.Sort(near)
			line = append(line, point{x.at(float64(i)), y.at(near[len(near)/2])})
		}
	}
	return line
}
