package stat

import "math"

// RankCorrelation is Spearman's: how far x and y, taken in pairs, rise and fall
// together, from −1 to 1. It is 0 where either is constant, and NaN below 3
// pairs, for different lengths, or with NaN among them.
func RankCorrelation(x, y []float64) float64 {
	if len(x) != len(y) || len(x) < 3 || !allUsable(x) || !allUsable(y) {
		return math.NaN()
	}
	a, b := ranks(x), ranks(y)
	middle := float64(len(x)+1) / 2
	var cross, ownA, ownB float64
	for i := range a {
		cross += (a[i] - middle) * (b[i] - middle)
		ownA += (a[i] - middle) * (a[i] - middle)
		ownB += (b[i] - middle) * (b[i] - middle)
	}
	if ownA == 0 || ownB == 0 {
		return 0
	}
	return max(-1, min(1, cross/math.Sqrt(ownA*ownB)))
}
