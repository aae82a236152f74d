package analysis

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// A Reason is a counter that differs clearly between a cell and its baseline, where
// a primary metric differs too. It is a correlation, not a proof of a cause.
type Reason struct {
	Metric    bench.Metric
	Condition string
	Cell      int // index in Plan.Cells
	// Baseline and Value are the medians of the trials.
	Baseline, Value float64
	// Comparison is a ratio if every value is above zero, else a difference. Its
	// family is the counters of the cell for the same place: the processes inside,
	// or the whole machine.
	Comparison Comparison
	// For lists the primary metrics that it may explain, at least one, in the run's
	// order.
	For []Explained
}

// An Explained is a metric that differs, with its correlation to a reason.
type Explained struct {
	Metric string
	// Correlation is the rank correlation, over blocks, between the metric's and the
	// counter's differences; 0 if one of them is constant.
	Correlation float64
}

// reasons finds the reasons of all cells that differ in a primary metric.
func (t *table) reasons(work []*measure) []Reason {
	targets := differingCells(work)
	if len(targets) == 0 {
		return nil
	}
	var counters []int
	for i, role := range t.role {
		if role == bench.Counter {
			counters = append(counters, i)
		}
	}
	// found[c][i] is counter c against target i.
	found := make([][]*counterCandidate, len(counters))
	parallel(len(counters), func(i int) { found[i] = t.compareCounter(counters[i], targets) })
	var out []Reason
	for i, to := range targets {
		var all []*counterCandidate
		for _, f := range found {
			all = append(all, f[i])
		}
		out = append(out, to.explain(distinct(all))...)
	}
	return out
}

// A reasonTarget is a cell for which reasons are wanted.
type reasonTarget struct {
	cell int
	group
	metrics []difference
}

// A difference is a primary metric that differs between a cell and its baseline.
type difference struct {
	bench.Metric
	*effect
}

// differingCells lists the cells that differ in a primary metric. A summary over
// conditions has no trials of its own.
func differingCells(work []*measure) []*reasonTarget {
	at := make(map[int]*reasonTarget)
	for _, m := range work {
		if m.result.Metric.Role != bench.Primary {
			continue
		}
		for i := range m.result.Conditions {
			for _, e := range m.tables[i].effects {
				if v := e.cmp.Verdict; v != Worse && v != Better && v != Different {
					continue
				}
				if at[e.cell] == nil {
					at[e.cell] = &reasonTarget{cell: e.cell, group: m.tables[i].group}
				}
				at[e.cell].metrics = append(at[e.cell].metrics, difference{m.result.Metric, e})
			}
		}
	}
	return slices.SortedFunc(maps.Values(at), func(a, b *reasonTarget) int { return cmp.Compare(a.cell, b.cell) })
}

// explain picks, for each metric, the counters that explain it best.
func (t *reasonTarget) explain(all []*counterCandidate) []Reason {
	var picked []*counterCandidate
	for _, m := range t.metrics {
		for _, f := range m.best(all) {
			if !slices.Contains(picked, f.counterCandidate) {
				picked = append(picked, f.counterCandidate)
			}
			f.reason.For = append(f.reason.For, Explained{m.Name, f.correlation})
		}
	}
	out := make([]Reason, len(picked))
	for i, c := range picked {
		out[i] = c.reason
	}
	return out
}
