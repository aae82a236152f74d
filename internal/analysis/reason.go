package analysis

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// A Reason is a counter that differs clearly between a cell and its baseline
// where a primary metric differs too. That is association, not proof.
type Reason struct {
	Metric    bench.Metric
	Condition string
	Cell      int // index in Plan.Cells
	// Baseline and Value are the medians of the trials.
	Baseline, Value float64
	// Comparison is a ratio where every value is above zero, else a difference.
	// Its family is the counters of the cell that are kept in the same place: for
	// the processes inside, or for the whole machine.
	Comparison Comparison
	// For are the primary metrics that it is a reason for, at least one, in the
	// run's order.
	For []Explained
}

// An Explained is a metric that differs, and how a reason goes with it.
type Explained struct {
	Metric string
	// Together is the rank correlation, over blocks, of what the metric and the
	// counter differ by; 0 where either always differs by the same.
	Together float64
}

// reasons looks for them wherever a primary metric differs.
func (t *table) reasons(work []*measure) []Reason {
	targets := differing(work)
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
	found := make([][]*candidate, len(counters))
	each(len(counters), func(i int) { found[i] = t.compareCounter(counters[i], targets) })
	var out []Reason
	for i, to := range targets {
		var all []*candidate
		for _, f := range found {
			all = append(all, f[i])
		}
		out = append(out, to.explain(distinct(all))...)
	}
	return out
}

// A target is a cell for which reasons are wanted.
type target struct {
	cell int
	group
	metrics []difference
}

// A difference is a primary metric that differs between a cell and its baseline.
type difference struct {
	bench.Metric
	*effect
}

// differing lists the cells that differ in a primary metric. A summary over
// conditions has no trials of its own.
func differing(work []*measure) []*target {
	at := make(map[int]*target)
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
					at[e.cell] = &target{cell: e.cell, group: m.tables[i].group}
				}
				at[e.cell].metrics = append(at[e.cell].metrics, difference{m.result.Metric, e})
			}
		}
	}
	return slices.SortedFunc(maps.Values(at), func(a, b *target) int { return cmp.Compare(a.cell, b.cell) })
}

// explain picks, for each metric, the counters that go with it best.
func (t *target) explain(all []*candidate) []Reason {
	var picked []*candidate
	for _, m := range t.metrics {
		for _, f := range m.best(all) {
			if !slices.Contains(picked, f.candidate) {
				picked = append(picked, f.candidate)
			}
			f.reason.For = append(f.reason.For, Explained{m.Name, f.together})
		}
	}
	out := make([]Reason, len(picked))
	for i, c := range picked {
		out[i] = c.reason
	}
	return out
}
