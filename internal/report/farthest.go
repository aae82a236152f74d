package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// Distance is how far a row is from its baseline, in either direction: as a logarithm, or in the metric's unit. The
// baseline itself comes before all others.
func (r *Row) Distance() float64 {
	switch {
	case r.Effect == nil:
		return math.Inf(1)
	case r.Effect.Estimate == nil:
		return 0
	case r.Effect.Scale == bench.Difference:
		return math.Abs(*r.Effect.Estimate)
	}
	return math.Abs(math.Log(*r.Effect.Estimate))
}

// Farthest keeps the n that are the farthest, in the order in which they came.
func Farthest[T any](all []T, n int, far func(T) float64) []T {
	if len(all) <= n {
		return all
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(far(all[b]), far(all[a])) })
	order = order[:n]
	slices.Sort(order)
	kept := make([]T, n)
	for k, i := range order {
		kept[k] = all[i]
	}
	return kept
}

// distances says how far each cell is from its baseline at most.
func distances(metrics ...Metric) map[string]float64 {
	far := map[string]float64{}
	for _, m := range metrics {
		for _, c := range m.Conditions {
			for i := range c.Rows {
				far[c.Rows[i].Cell] = max(far[c.Rows[i].Cell], c.Rows[i].Distance())
			}
		}
	}
	return far
}

// distance is how far any of some rows is from its baseline.
func distance(rows []Row) (far float64) {
	for i := range rows {
		if rows[i].Effect != nil {
			far = max(far, rows[i].Distance())
		}
	}
	return far
}
