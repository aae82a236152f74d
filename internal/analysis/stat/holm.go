package stat

import (
	"math"
	"slices"
)

// Holm adjusts the p-values of a family of tests so that rejecting those at or
// below α makes a false claim anywhere in the family with a probability of at
// most α, however the tests depend on each other (Holm 1979). The result is in
// the order of p. A NaN stays one and does not count as a test.
func Holm(p []float64) []float64 {
	adjusted := slices.Clone(p)
	order := make([]int, 0, len(p))
	for i, v := range p {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return a - b
	})
	var running float64
	for rank, i := range order {
		running = max(running, min(1, p[i]*float64(len(order)-rank)))
		adjusted[i] = running
	}
	return adjusted
}
