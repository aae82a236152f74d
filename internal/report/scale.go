package report

import (
	"math"

	"github.com/tare-bench/tare/internal/text/unit"
)

// A scale writes the values of one metric, and what they differ by, wherever a report
// has them: all with one prefix, so that they can be compared by eye, unless they are
// too far apart for one.
type scale struct {
	unit string
	all  unit.Scaler
	each bool // each value has a prefix of its own
}

// decades is how many powers of ten one prefix can show: beyond them, the
// smallest value is all zeros.
const decades = 3

// newScale suits all values of a metric, under every condition. Those that are
// nil or zero have no say.
func newScale(u string, values []*float64) scale {
	var known []float64
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v != nil && *v != 0 {
			known = append(known, *v)
			low, high = min(low, math.Abs(*v)), max(high, math.Abs(*v))
		}
	}
	return scale{u, unit.Scale(u, known...), high > low*math.Pow(10, decades)}
}

// of returns what writes a row of which these are the values.
func (s scale) of(values ...float64) unit.Scaler {
	if s.each {
		return unit.Scale(s.unit, values...)
	}
	return s.all
}

// difference returns what writes differences of values: with the same prefix, unless
// all of them would be too small to be read.
func (s scale) difference(values ...float64) unit.Scaler {
	const readable = 0.001
	for _, v := range values {
		if !s.each && math.Abs(s.all.In(v)) >= readable {
			return s.all
		}
	}
	return unit.Scale(s.unit, values...)
}

// text writes a value, or that there is none.
func (s scale) text(v *float64) string {
	if v == nil {
		return unit.None
	}
	return s.of(*v).Format(*v)
}

// scale is that of a metric's values.
func (m *Metric) scale() scale {
	var values []*float64
	for _, c := range m.tables() {
		for i := range c.Rows {
			values = append(values, c.Rows[i].Median)
		}
	}
	return newScale(unitName(m.Unit), values)
}
