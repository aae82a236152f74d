package analysis

import (
	"math"

	"github.com/tare-bench/tare/internal/bench"
)

// changes lists the pairs of an effect by block: a ratio or a difference each, as the
// Comparison's Estimate is; NaN for blocks without a pair.
func (e *effect) changes(blocks int) []float64 {
	all := make([]float64, blocks)
	for i := range all {
		all[i] = math.NaN()
	}
	for i, block := range e.blockIndex {
		all[block] = fromDistance(e.diffs[i], e.scale)
	}
	return all
}

// keepSingles keeps, of the primary metrics, the values of all trials and the pairs of all comparisons.
func keepSingles(work []*measure) {
	for _, m := range work {
		if m.result.Metric.Role != bench.Primary {
			continue
		}
		for i, r := range m.results() {
			for _, e := range m.tables[i].all() {
				e.cmp.Changes = e.changes(m.blocks)
			}
			if r == m.result.Summary {
				continue
			}
			for j := range r.Cells {
				r.Cells[j].Values = m.column[r.Cells[j].Cell]
			}
			if r.Control >= 0 {
				r.ControlValues = m.column[r.Control]
			}
		}
	}
}

// conditionLevels are the levels of the plan's conditions in one cell, such as clients = 8.
func conditionLevels(plan *bench.Plan, cell *bench.Cell) (all []bench.Label) {
	for _, f := range plan.Factors {
		for _, l := range cell.Levels {
			if f.Condition && l.Key == f.Name {
				all = append(all, l)
			}
		}
	}
	return all
}
