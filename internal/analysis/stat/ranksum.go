package stat

import "math"

// Shift is how far one of two independent samples lies above the other.
type Shift struct {
	N, M     int      // number of values in x and in y
	Estimate float64  // Hodges–Lehmann: the median of all differences x[i]−y[j]
	Interval Interval // of the shift; NaN where OK is false
	OK       bool     // there is an interval of this confidence: at 95 % from 4 and 4 values on
	P        float64  // two-sided: the shift is 0
}

// RankSum estimates by how much x lies above y, and tests whether it is 0, by
// the Mann–Whitney (Wilcoxon rank-sum) test. It is right for independent
// samples from distributions of the same shape.
//
// The null distribution is exact up to 50 values each; above, it is the normal
// approximation with continuity correction.
//
// Without values on either side, or with unusable ones, the numbers are NaN.
func RankSum(x, y []float64, confidence float64) Shift {
	r := Shift{N: len(x), M: len(y), Estimate: math.NaN(), Interval: noInterval(), P: math.NaN()}
	if len(x) == 0 || len(y) == 0 || !allUsable(x) || !allUsable(y) {
		return r
	}
	differences := pairDifferences(sorted(x), sorted(y))
	null := rankSumNull(len(x), len(y))
	r.Estimate = differences.median()
	r.P = null.twoSided(differences.signCount())
	if k, level := null.criticalRank(confidence); k > 0 {
		r.OK = true
		r.Interval = Interval{differences.kth(k), differences.kth(differences.total + 1 - k), level}
	}
	return r
}

// MinPerSide returns the smallest number of values on each of two sides with
// which RankSum can reject at all when it is one of a family of tests with the
// given confidence together, as in Holm; family ≥ 1. The smallest p-value of n
// and n values is 2 divided by the number of ways to choose n of 2n.
// It returns 0 unless 0 < confidence < 1.
func MinPerSide(confidence float64, family int) int {
	if !validLevel(confidence) {
		return 0
	}
	alpha := errorRate(confidence) / float64(max(family, 1))
	n, ways := 1, 2.0
	for 2/ways > alpha {
		n++
		ways *= float64(2*(2*n-1)) / float64(n)
	}
	return n
}
