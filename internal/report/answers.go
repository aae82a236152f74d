package report

import (
	"fmt"
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// answers puts the comparison of two cells into sentences, one for each primary metric. It
// is nil for more cells or several conditions: tables show those better.
func answers(primary []Metric) (all []Line) {
	for i := range primary {
		m := &primary[i]
		if len(m.Conditions) != 1 {
			return nil
		}
		base, other := m.Conditions[0].soleComparison()
		if base == nil || other == nil {
			return nil
		}
		all = append(all, Line{Name: plain.Line(m.Title), Text: []string{answer(m, base, other)}})
	}
	return all
}

// soleComparison are the rows of a condition if it has a baseline and one other cell, and nil
// otherwise.
func (c *Condition) soleComparison() (base, other *Row) {
	if len(c.Rows) != 2 {
		return nil, nil
	}
	for i := range c.Rows {
		if r := &c.Rows[i]; r.Effect == nil {
			base = r
		} else {
			other = r
		}
	}
	return base, other
}

// answer is one sentence, such as "b is slower, ×1.20 [1.15, 1.26]: 12 ms
// against 10 ms".
func answer(m *Metric, base, other *Row) string {
	e, name := other.Effect, plain.Line(other.Cell)
	switch {
	case base.Median == nil && other.Median == nil:
		return "neither has a value"
	case base.Median == nil:
		return "the baseline, " + plain.Line(base.Cell) + ", has no value; " + name + " has " + m.scale().text(other.Median)
	case other.Median == nil:
		return name + " has no value; " + plain.Line(base.Cell) + " has " + m.scale().text(base.Median)
	case e.Estimate == nil: // they have no value in the same block, or none that has a ratio
		in := m.scale()
		return fmt.Sprintf("%s and %s cannot be compared in any block: %s against %s",
			name, plain.Line(base.Cell), in.text(other.Median), in.text(base.Median))
	}
	effect := effectText(e, m.scale())
	by := strings.TrimSpace(effect[0] + " " + effect[1])
	if e.Low == nil && effect[1] != "" {
		by = effect[0] + ", " + effect[1] // why there is no interval
	}
	switch analysis.Verdict(e.Verdict) {
	case analysis.Worse, analysis.Better, analysis.Different:
		word, _ := verdictText(m, e)
		verb := "is"
		if word == "less" || word == "more" {
			verb = "takes"
		}
		in := m.scale()
		return fmt.Sprintf("%s %s %s, %s: %s against %s", name, verb, word, by, in.text(other.Median), in.text(base.Median))
	case analysis.Same:
		return fmt.Sprintf("%s is the same within %s, %s", name, margin(m, e), by)
	case analysis.Unreliable:
		return name + " has no verdict: the control differs from the baseline too, and this is not far beyond it"
	}
	if e.needed > 0 {
		by += fmt.Sprintf(", needs about %s", unit.FormatCount(e.needed, "block"))
	}
	limit := "margin"
	if e.Noisy {
		limit = "noise"
	}
	return fmt.Sprintf("%s is unclear (%s %s): %s", name, limit, margin(m, e), by)
}
