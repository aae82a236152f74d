package stat

import "math"

// Paired is the result of a test of n differences of pairs.
type Paired struct {
	N        int      // number of differences
	Estimate float64  // Hodges–Lehmann: the median of the Walsh averages
	Interval Interval // of the centre of the differences; NaN where OK is false
	OK       bool     // there is an interval of this confidence: at 95 % from 6 differences on
	P        float64  // two-sided: the centre is 0
}

// SignedRank estimates the centre of the differences d of pairs, and tests
// whether it is 0, by Wilcoxon's signed-rank test. It is right for differences
// that are independent of each other and symmetric about their centre, which
// random order within blocks gives whatever the noise is.
//
// The null distribution is exact up to 50 differences; above, it is the normal
// approximation with continuity correction. Estimate and ends of the interval
// are exact order statistics of the Walsh averages (d[i]+d[j])/2, i ≤ j.
//
// Without differences, or with unusable ones, the numbers are NaN.
func SignedRank(d []float64, confidence float64) Paired {
	r := Paired{N: len(d), Estimate: math.NaN(), Interval: noInterval(), P: math.NaN()}
	if len(d) == 0 || !allUsable(d) {
		return r
	}
	sums := pairSums(sorted(d))
	null := signedRankNull(len(d))
	r.Estimate = sums.median() / 2
	r.P = null.twoSided(sums.signCount())
	if k, level := null.criticalRank(confidence); k > 0 {
		r.OK = true
		r.Interval = Interval{sums.kth(k) / 2, sums.kth(sums.total+1-k) / 2, level}
	}
	return r
}

// PairsFor estimates how many pairs SignedRank needs in all until its interval
// is no wider than ±halfWidth, from the differences d seen so far: the width
// shrinks with the square root of their number. It returns len(d) if they are
// enough, and 0 if d has no interval yet, or if no number is enough.
func PairsFor(d []float64, halfWidth, confidence float64) int {
	r := SignedRank(d, confidence)
	if !r.OK || !(halfWidth > 0) {
		return 0
	}
	have := r.Interval.HalfWidth()
	if have <= halfWidth {
		return r.N
	}
	// The interval of a small sample has a higher level than requested, and is
	// wider for it. A larger sample has a level closer to the request.
	have *= normalWithin(confidence) / normalWithin(r.Interval.Level)
	n := math.Ceil(float64(r.N) * (have / halfWidth) * (have / halfWidth))
	if n > math.MaxInt32 {
		return 0
	}
	return max(int(n), r.N+1)
}

// MinPairs returns the smallest number of pairs with which SignedRank can
// reject at all when it is one of a family of tests with the given confidence
// together, as in Holm; family ≥ 1. The smallest p-value of n
// pairs is 2/2ⁿ. It returns 0 unless 0 < confidence < 1.
func MinPairs(confidence float64, family int) int {
	if !validLevel(confidence) {
		return 0
	}
	alpha := errorRate(confidence) / float64(max(family, 1))
	n := 1
	for math.Ldexp(1, 1-n) > alpha {
		n++
	}
	return n
}
