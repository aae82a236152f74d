package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/stat"
)

const (
	// reasonsPerCell is how many a person reads.
	reasonsPerCell = 3
	// noticeable is the smallest change of a counter that explains anything.
	noticeable = 0.10
)

// A Reason is a counter that differs clearly between a cell and its baseline
// while a primary metric differs too. That is association, not proof.
type Reason struct {
	Metric    bench.Metric
	Condition string
	Cell      int // index in Plan.Cells
	// Baseline and Value are the medians of the trials.
	Baseline, Value float64
	// Comparison is a ratio where every value is above zero, else a difference.
	// Its family is all counters of the cell.
	Comparison Comparison
}

// reasons looks for them wherever a primary metric differs.
func (t *table) reasons(work []*measure) []Reason {
	targets := differing(work)
	var counters []int
	for i, role := range t.role {
		if role == bench.Counter && len(targets) > 0 {
			counters = append(counters, i)
		}
	}
	// found[c][i] is counter c against target i.
	found := make([][]Reason, len(counters))
	each(len(counters), func(i int) { found[i] = t.compareCounter(counters[i], targets) })
	var out []Reason
	for i := range targets {
		var candidates []Reason
		for _, f := range found {
			candidates = append(candidates, f[i])
		}
		out = append(out, clearest(candidates)...)
	}
	return out
}

// A target is a cell for which a reason is wanted.
type target struct {
	cell int
	group
}

// differing lists the cells that differ in a primary metric.
func differing(work []*measure) []target {
	var out []target
	seen := make(map[int]bool)
	for _, m := range work {
		if m.result.Metric.Role != bench.Primary {
			continue
		}
		for i := range m.result.Conditions { // a summary has no trials of its own
			for _, e := range m.tables[i].effects {
				if v := e.cmp.Verdict; (v == Worse || v == Better || v == Different) && !seen[e.cell] {
					seen[e.cell] = true
					out = append(out, target{e.cell, m.tables[i].group})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b target) int { return cmp.Compare(a.cell, b.cell) })
	return out
}

// compareCounter compares every target with its baseline by one counter.
func (t *table) compareCounter(metric int, targets []target) []Reason {
	column := t.column(metric)
	medians := make([]float64, len(column))
	for i, x := range column {
		medians[i] = median(x)
	}
	out := make([]Reason, len(targets))
	for i, to := range targets {
		scale := bench.Difference
		if positive(column[to.cell]) && positive(column[to.baseline]) {
			scale = bench.Ratio
		}
		out[i] = Reason{
			Metric:     t.run.Header.Metrics[metric],
			Condition:  to.condition,
			Cell:       to.cell,
			Baseline:   medians[to.baseline],
			Value:      medians[to.cell],
			Comparison: *newEffect(to.cell, column[to.cell], column[to.baseline], scale).cmp,
		}
	}
	return out
}

// positive reports whether no value is zero or less.
func positive(x []float64) bool {
	return !slices.ContainsFunc(x, func(v float64) bool { return v <= 0 })
}

// clearest picks the counters of one cell that differ most clearly.
func clearest(all []Reason) []Reason {
	p := make([]float64, len(all))
	for i := range all {
		p[i] = all[i].Comparison.P
	}
	var out []Reason
	for i, adjusted := range stat.Holm(p) {
		r := all[i]
		r.Comparison.Adjusted = adjusted
		if adjusted < alpha && r.clarity() > math.Log1p(noticeable) {
			r.Comparison.Verdict = Different
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return cmp.Compare(b.clarity(), a.clarity()) })
	return out[:min(len(out), reasonsPerCell)]
}

// clarity is the smallest change that the interval allows, as the logarithm of
// a ratio, so that ratios and differences can be put in one order.
func (r *Reason) clarity() float64 {
	c := &r.Comparison
	if !c.HasInterval {
		return 0
	}
	low, high := toDistance(c.Low, c.Scale), toDistance(c.High, c.Scale)
	if low <= 0 && high >= 0 {
		return 0
	}
	least := min(math.Abs(low), math.Abs(high))
	if c.Scale == bench.Ratio {
		return least
	}
	return math.Log1p(least / max(math.Abs(r.Baseline), grain(r.Metric.Unit)))
}

// grain is an amount of which less is hardly anything: it stands for a
// baseline of zero, over which everything would be infinitely much.
func grain(unit string) float64 {
	switch unit {
	case "s":
		return 1e-3
	case "B":
		return 4096
	default:
		return 1
	}
}
