package report

import (
	"math"

	"github.com/tare-bench/tare/internal/unit"
)

// A scale writes the numbers of one column: all with one prefix, so that they
// can be compared by eye, unless they are too far apart for one.
type scale struct {
	unit string
	all  unit.Scaler
	each bool // each row has a prefix of its own
}

// decades is how many powers of ten one prefix can show: beyond them, the
// smallest value is all zeros.
const decades = 3

// newScale suits all values of a column, under every condition. Those that are
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

// text writes a value, or that there is none.
func (s scale) text(v *float64) string {
	if v == nil {
		return unit.None
	}
	return s.of(*v).Format(*v)
}

// medians is the scale of a metric's values, and effects that of its differences.
func (m *Metric) medians() scale {
	return m.scale(func(r *Row) *float64 { return r.Median })
}

func (m *Metric) effects() scale {
	return m.scale(func(r *Row) *float64 {
		if r.Effect == nil {
			return nil
		}
		return r.Effect.Estimate
	})
}

func (m *Metric) scale(get func(*Row) *float64) scale {
	var values []*float64
	for _, c := range m.tables() {
		for i := range c.Rows {
			values = append(values, get(&c.Rows[i]))
		}
	}
	return newScale(unitName(m.Unit), values)
}
