package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Mean returns the mean of x, and its interval by Student's t; false without an interval, for which it
// takes three values. It is for quantities that are to be added up, which medians do not allow: a sum of
// means is the mean of the sums. With skewed values, its interval is less exact than those of the
// other functions.
func Mean(x []float64, confidence float64) (centre float64, i Interval, ok bool) {
	if len(x) == 0 || !allUsable(x) {
		return math.NaN(), noInterval(), false
	}
	m := mean(x)
	if len(x) < 3 || !validLevel(confidence) {
		return m, noInterval(), false
	}
	sum := 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	n := float64(len(x))
	half := studentWithin(confidence, n-1) * math.Sqrt(sum/(n-1)/n)
	if !(half <= maxMagnitude) { // also false for NaN
		return m, noInterval(), false
	}
	return m, Interval{m - half, m + half, confidence}, true
}

// studentWithin returns the t for which P(|T| ≤ t) is the given confidence, for Student's T with df degrees of
// freedom.
func studentWithin(confidence, df float64) float64 {
	x := mathext.InvRegIncBeta(df/2, 0.5, 1-confidence)
	return math.Sqrt(df * (1 - x) / x)
}
