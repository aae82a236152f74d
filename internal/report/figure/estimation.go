package figure

import (
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

const (
	rowHeight = 46 // a label, and the values below it
	topSpace  = 30 // the panel's title
	axisSpace = 22
)

// estimation shows, under each condition, every value of every cell and, beside it, what it
// differs by from the baseline.
func estimation(m *report.Metric) (all []Figure) {
	for i := range m.Conditions {
		c := &m.Conditions[i]
		rows, cells := shownRows(c)
		if len(rows) == 0 {
			continue
		}
		f := Figure{
			Name: named(m.Name, c.Condition), Kind: Estimation, Metric: m.Name,
			Title: report.Under(m.Title, c.Condition), Finding: finding(m, c),
			Thinned: leftOut(len(rows), cells, differMost, slices.ContainsFunc(rows, tooMany)),
		}
		f.Panels = append(f.Panels, valuesPanel(m, c, rows))
		if p, ok := changesPanel(m, c, rows); ok {
			f.Panels = append(f.Panels, p)
		}
		all = append(all, f)
	}
	return all
}

// label names a row.
func label(r *report.Row) string {
	if r.Group != "" {
		return plain.Line(r.Cell + " · " + r.Group)
	}
	return plain.Line(r.Cell)
}

// finding says of each cell what is known.
func finding(m *report.Metric, c *report.Condition) string {
	s := report.Under(m.Title, c.Condition) + ": "
	n := 0
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.Finding == nil || r.Finding.Text == "" {
			continue
		}
		if n++; n > 12 {
			return s + "; and more"
		}
		if n > 1 {
			s += "; "
		}
		s += label(r) + " " + r.Finding.Text
	}
	return s + "."
}

// valuesPanel has a row for each cell: its values, their median and the interval of that.
func valuesPanel(m *report.Metric, c *report.Condition, rows []*report.Row) Panel {
	var values []float64
	for _, r := range rows {
		values = append(values, r.Values...)
	}
	var b canvas
	height := float64(topSpace + rowHeight*len(rows) + axisSpace)
	x := valueAxis(values, unitOf(m), margin, width-margin, 4)
	b.text(margin, 14, left, words, normal, "every "+unitOfValue(rows)+axisNote(&x))
	b.horizontal(&x, topSpace-8, height-axisSpace)
	for i, r := range rows {
		y := float64(topSpace + i*rowHeight)
		b.text(margin, y+10, left, words, normal, shorten(label(r), 38))
		if r.Median != nil {
			b.text(width-margin, y+10, right, words, normal, unit.Format(*r.Median, unitOf(m)))
		}
		b.strip(&x, y+26, r.Values)
		if r.Low != nil && r.High != nil {
			b.line(x.at(*r.Low), y+26, x.at(*r.High), y+26, words, 2)
		}
		if r.Median != nil {
			b.line(x.at(*r.Median), y+17, x.at(*r.Median), y+35, words, 2.5)
		}
	}
	return Panel{
		Title:   report.Under(m.Title, c.Condition) + ": every value, with medians and their 95 % intervals",
		Finding: finding(m, c), Width: width, Height: height, body: b.String(),
	}
}

// unitOfValue is what one value stands for.
func unitOfValue(rows []*report.Row) string {
	if rows[0].Group != "" {
		return "run"
	}
	return "block"
}

func axisNote(a *axis) string {
	if a.log {
		return " (logarithmic)"
	}
	return ""
}

// unitOf is the unit of a metric, not longer than any unit.
func unitOf(m *report.Metric) string { return shorten(plain.Line(m.Unit), 12) }

// strip draws values around a line. Where each lies above or below it means nothing, and is
// the same every time.
func (c *canvas) strip(x *axis, y float64, values []float64) {
	var points []point
	for i, v := range thin(values) {
		if math.IsNaN(v) {
			continue
		}
		const golden = 0.6180339887
		_, off := math.Modf(float64(i+1) * golden)
		points = append(points, point{x.at(v), y + math.Round((off-0.5)*14)})
	}
	c.dots(points, 3.2, muted)
}

// thin leaves out values evenly, where they are too many.
func thin(values []float64) []float64 {
	if len(values) <= maxPoints {
		return values
	}
	out := make([]float64, maxPoints)
	for i := range out {
		out[i] = values[i*len(values)/maxPoints]
	}
	return out
}

// changesPanel has a row for each cell: what it differs by from the baseline in each block, the
// estimate with its interval, and what would be too small to matter. The control is the last one.
func changesPanel(m *report.Metric, c *report.Condition, rows []*report.Row) (Panel, bool) {
	type line struct {
		name, text string
		effect     *report.Effect
		color      ink
	}
	var lines []line
	for _, r := range rows {
		if r.Effect != nil && r.Effect.Estimate != nil {
			lines = append(lines, line{label(r), findingText(r), r.Effect, tone(m, r.Effect)})
		}
	}
	if len(lines) == 0 {
		return Panel{}, false
	}
	if c.Noise != nil && c.Noise.Estimate != nil {
		lines = append(lines, line{"control", "the baseline again: noise", c.Noise, muted})
	}
	var effects []*report.Effect
	for _, l := range lines {
		effects = append(effects, l.effect)
	}
	x := effectsAxis(effects, unitOf(m))
	var b canvas
	height := float64(topSpace + rowHeight*len(lines) + axisSpace)
	b.text(margin, 14, left, words, normal, "against "+shorten(plain.Line(c.Baseline), 36))
	b.zone(&x, lines[0].effect, topSpace-8, height-axisSpace)
	b.horizontal(&x, topSpace-8, height-axisSpace)
	b.line(x.at(nothing(effects[0])), topSpace-8, x.at(nothing(effects[0])), height-axisSpace, none, 1)
	for i, l := range lines {
		y := float64(topSpace + i*rowHeight)
		text := shorten(l.text, 34)
		b.text(margin, y+10, left, words, normal, shortenTo(l.name, width-2*margin-normalWidth(text)-8))
		b.text(width-margin, y+10, right, l.color, normal, text)
		b.strip(&x, y+26, l.effect.Changes)
		b.effect(&x, y+26, l.effect, l.color)
	}
	return Panel{
		Title:   report.Under(m.Title, c.Condition) + ": differences from the baseline, with 95 % intervals",
		Finding: finding(m, c), Width: width, Height: height, body: b.String(),
	}, true
}

func findingText(r *report.Row) string {
	if r.Finding == nil {
		return ""
	}
	return r.Finding.Text
}

// nothing is where an effect is no difference.
func nothing(e *report.Effect) float64 {
	if e.Scale == bench.Difference {
		return 0
	}
	return 1
}

// effectsAxis has room for "no difference", and for all pairs and intervals.
func effectsAxis(effects []*report.Effect, u string) axis {
	values := []float64{nothing(effects[0])}
	for _, e := range effects {
		values = append(append(values, e.Changes...), known(e.Estimate, e.Low, e.High)...)
	}
	if effects[0].Scale == bench.Difference {
		return valueAxis(values, u, margin, width-margin, 4)
	}
	return changeAxis(values, margin, width-margin)
}

// zone shades what is too small to matter. There is none where the noise decides and is too large for that: it would
// span several times the baseline's value.
func (c *canvas) zone(x *axis, e *report.Effect, top, bottom float64) {
	if e.Smallest <= 0 || e.Noisy {
		return
	}
	low, high := -e.Smallest, e.Smallest
	if e.Scale != bench.Difference {
		low, high = 1/(1+e.Smallest), 1+e.Smallest
	}
	c.rect(x.at(low), top, x.at(high)-x.at(low), bottom-top, zone)
}

// effect draws an estimate and its interval.
func (c *canvas) effect(x *axis, y float64, e *report.Effect, i ink) {
	if e.Low != nil && e.High != nil {
		c.line(x.at(*e.Low), y, x.at(*e.High), y, i, 2.5)
	}
	c.dot(x.at(*e.Estimate), y, 4.5, i)
}

// tone is the colour of a verdict.
func tone(m *report.Metric, e *report.Effect) ink {
	switch analysis.Verdict(e.Verdict) {
	case analysis.Worse:
		return bad
	case analysis.Better:
		return good
	case analysis.Unclear, analysis.Unreliable:
		return unsure
	default:
		return words
	}
}
