package figure

import (
	"math"
	"slices"
	"strconv"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

const (
	driftHeight = 120
	leftSpace   = 62 // for the numbers of a vertical axis
)

// drift shows, under each condition, values in order of execution: a panel for the baseline,
// whose values show what the machine did, and one for the changes of each cell, which ought to
// stay level.
func drift(d *report.Document, m *report.Metric) (all []Figure) {
	for i := range m.Conditions {
		c := &m.Conditions[i]
		rows, cells := shownRows(c)
		if len(rows) == 0 || len(rows[0].Values) < 3 {
			continue
		}
		courses := make([]course, len(rows))
		for k, r := range rows {
			courses[k] = newCourse(m, c, r)
		}
		f := Figure{
			Name: named(m.Name, c.Condition, "drift"), Kind: Drift, Metric: m.Name,
			Title:   report.Under(m.Title, c.Condition) + ", block by block",
			Finding: driftFinding(d, m, c, courses),
			Reading: "Values are in order of execution. The line is the median of five blocks. A cross is a block without " +
				"a value.",
			Thinned: leftOut(len(rows), cells, differMost, slices.ContainsFunc(rows, tooMany)),
			Numbers: driftTable(m, c, courses),
		}
		for k := range courses {
			f.Panels = append(f.Panels, driftPanel(m, c, &courses[k]))
		}
		all = append(all, f)
	}
	return all
}

// A course is what a panel shows: the values of the baseline, or the changes of another cell.
type course struct {
	row    *report.Row
	title  string
	unit   string
	ratios bool // the values are ratios to the baseline
	values []float64

	// the line: medians of five values, and the blocks in the middle of these
	blocks  []int
	medians []float64
}

func newCourse(m *report.Metric, c *report.Condition, r *report.Row) course {
	one := course{row: r, title: label(r), unit: unitOf(m), values: r.Values}
	if e := r.Effect; e != nil && e.Changes != nil {
		one.values, one.title = e.Changes, label(r)+" against "+plain.Line(c.Baseline)
		one.ratios = e.Scale != bench.Difference
	}
	one.blocks, one.medians = running(one.values)
	return one
}

// running are the medians of five values around each.
func running(values []float64) (blocks []int, medians []float64) {
	const around = 2
	for i := around; i < len(values)-around; i++ {
		var near []float64
		for _, v := range values[i-around : i+around+1] {
			if !math.IsNaN(v) {
				near = append(near, v)
			}
		}
		if len(near) > 0 {
			slices.Sort(near)
			blocks, medians = append(blocks, i), append(medians, near[len(near)/2])
		}
	}
	return blocks, medians
}

func (c *course) axis() axis {
	if c.ratios {
		return changeAxis(c.values, driftHeight-20, 26)
	}
	return valueAxis(c.values, c.unit, driftHeight-20, 26, 3)
}

// texts writes numbers of a course alike.
func (c *course) texts(all ...float64) []string {
	if c.ratios {
		return unit.FormatRatios(all[0], all[1:]...)
	}
	scale, texts := unit.Scale(c.unit, all...), make([]string, len(all))
	for i, v := range all {
		texts[i] = scale.Format(v)
	}
	return texts
}

// stayed says between which values the line is.
func (c *course) stayed() string {
	if len(c.medians) == 0 {
		return "needs five blocks"
	}
	ends := c.texts(slices.Min(c.medians), slices.Max(c.medians))
	return "stayed between " + ends[0] + " and " + ends[1]
}

// apart is how far the ends of the line are from each other in percent; empty where a share says nothing.
func (c *course) apart(m *report.Metric) string {
	if len(c.medians) == 0 || m.Scale == bench.Difference || slices.Min(c.medians) <= 0 {
		return ""
	}
	return ", " + unit.FormatPercent(slices.Max(c.medians)/slices.Min(c.medians)-1) + " apart"
}

// driftFinding says how far the baseline went. Only a warning claims that something drifted.
func driftFinding(d *report.Document, m *report.Metric, c *report.Condition, all []course) string {
	base := &all[max(0, slices.IndexFunc(all, func(one course) bool { return one.row.Effect == nil }))]
	claim := "; no drift is claimed."
	if driftWarned(d, m, c) {
		claim = "; a warning says what drifted."
	}
	return report.Under(m.Title, c.Condition) + ", block by block: the running median of " + base.title + " " +
		base.stayed() + base.apart(m) + claim
}

// driftWarned reports whether there is a warning of drift.
func driftWarned(d *report.Document, m *report.Metric, c *report.Condition) bool {
	of := func(w report.Warning) bool {
		return len(w.Cells) == 0 || slices.ContainsFunc(c.Rows, func(r report.Row) bool {
			return slices.Contains(w.Cells, analysis.CellName(&bench.Cell{Name: r.Cell, Condition: c.Condition}))
		})
	}
	return slices.ContainsFunc(d.Warned, func(w report.Warning) bool {
		return w.Code == analysis.CodeDrift && (w.Metric == m.Name || slices.Contains(w.Also, m.Name)) && of(w)
	})
}

// driftPanel draws a course.
func driftPanel(m *report.Metric, c *report.Condition, one *course) Panel {
	values, e := one.values, one.row.Effect
	x := axis{from: 0, to: math.Max(float64(len(values)-1), 1), lo: leftSpace, hi: width - margin}
	y := one.axis()
	var b canvas
	b.text(margin, 14, left, words, normal, shorten(one.title, 48))
	b.vertical(&y, leftSpace, width-margin)
	if e != nil && y.from <= nothing(e) && y.to >= nothing(e) {
		b.line(leftSpace, y.at(nothing(e)), width-margin, y.at(nothing(e)), none, 1)
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
	b.polyline(one.line(&x, &y), words, 1.5, "")
	b.text(width-margin, driftHeight-6, right, muted, small, "block "+strconv.Itoa(len(values)))
	b.text(leftSpace, driftHeight-6, left, muted, small, "block 1")
	return Panel{
		Title:   report.Under(m.Title, c.Condition) + " of " + one.title + ", block by block",
		Finding: "The running median " + one.stayed() + ".",
		Width:   width, Height: driftHeight, body: b.String(),
	}
}

// line is where the medians are, with fewer points than there are values.
func (c *course) line(x, y *axis) (line []point) {
	const most = 50
	step := len(c.medians)/most + 1
	for i := 0; i < len(c.medians); i += step {
		line = append(line, point{x.at(float64(c.blocks[i])), y.at(c.medians[i])})
	}
	return line
}
