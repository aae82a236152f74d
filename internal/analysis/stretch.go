package analysis

import (
	"fmt"
	"math"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

// Where cells take turns, each trial also has one uninterrupted stretch. If the ratio of two cells
// differs between turns and stretches by more than chance, and by more than would matter, turns
// change what is measured. Then the comparison is that of the stretches.

// stretchWeight is how many times the probability of a comparison counts that is one of stretches. Where nothing differs,
// turns and stretches seem to differ just when the stretches do by chance: without it a run would have a second way
// to a false claim. With it, they have half a percent of the first look's four.
const stretchWeight = 8

// stretches returns the column of the metric's uninterrupted stretches; nil if it has none.
func (t *table) stretches(name string) [][]float64 {
	for i, m := range t.run.Header.Metrics {
		if m.StretchOf == name {
			return t.column(i)
		}
	}
	return nil
}

// stretchTests is the number of comparisons of turns with stretches in the run, which share the
// probability of a false alarm.
func (t *table) stretchTests() (n int) {
	for i, m := range t.run.Header.Metrics {
		if m.StretchOf == "" || t.isEmpty(i) {
			continue
		}
		for _, g := range t.groups {
			n += len(g.cells) - 1
			if g.control >= 0 {
				n++
			}
		}
	}
	return n
}

// isEmpty reports whether no trial has a value of the metric.
func (t *table) isEmpty(metric int) bool {
	for _, r := range t.rows {
		if x := t.values(r); metric < len(x) && !math.IsNaN(x[metric]) {
			return false
		}
	}
	return true
}

// unlessInterrupted returns the effect of the stretches in place of that of the turns, if the two
// differ.
func (m *measure) unlessInterrupted(e *effect, base int) *effect {
	if m.stretch == nil || m.stretchTests == 0 {
		return e
	}
	of := newEffect(e.cell, m.stretch[e.cell], m.stretch[base], e.scale)
	var between []float64
	for i, block := range e.blockIndex {
		for j, other := range of.blockIndex {
			if other == block {
				between = append(between, e.diffs[i]-of.diffs[j])
			}
		}
	}
	if len(between) == 0 {
		return e
	}
	limit := smallest
	if m.result.Asked > 0 {
		limit = m.result.Asked
	}
	s := stat.SignedRank(between, confidence)
	if s.P*float64(m.stretchTests) >= alpha || math.Abs(s.Estimate) <= math.Log1p(limit) {
		return e
	}
	of.cmp.Interrupted = true
	of.shift(m.stretch[e.cell], m.stretch[base])
	return of
}

// interrupted warns of comparisons whose turns change what they measure.
func (w *warner) interrupted() {
	for _, m := range w.work {
		var cells []int
		for _, c := range m.tables[:len(m.result.Conditions)] {
			for _, e := range c.all() {
				if e.cmp.Interrupted {
					cells = append(cells, e.cell)
				}
			}
		}
		if len(cells) == 0 {
			continue
		}
		metric := m.result.Metric
		w.add(CodeInterrupted,
			fmt.Sprintf("%s of %s differs between turns and one uninterrupted stretch: the comparison is that of the stretches",
				metric.Title, w.names(cells)),
			"something works in periods longer than a turn, such as a limit or a cache; compare with --interleave off",
			metric.Name, cells...)
	}
}
