package stat

import (
	"math"
	"sort"
)

// Quantile returns the p-quantile of x, 0 ≤ p ≤ 1, interpolated linearly
// between the two nearest order statistics: type 7 of Hyndman & Fan 1996, the
// default of R and NumPy. It is NaN where x is empty or holds NaN, or p is out
// of range.
func Quantile(x []float64, p float64) float64 {
	if len(x) == 0 || !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	s := sorted(x)
	if math.IsNaN(s[0]) { // NaN sorts first
		return math.NaN()
	}
	at, part := math.Modf(float64(len(s)-1) * p)
	i := int(at)
	if part == 0 || s[i] == s[i+1] {
		return s[i]
	}
	return s[i] + part*(s[i+1]-s[i])
}

// Median returns the 0.5-quantile of x.
func Median(x []float64) float64 { return Quantile(x, 0.5) }

// MedianInterval returns the interval between two order statistics of x that
// covers the median of what x was drawn from. It assumes only that the values
// are independent. There is none at 95 % below 6 values.
func MedianInterval(x []float64, confidence float64) (Interval, bool) {
	return QuantileInterval(x, 0.5, confidence)
}

// QuantileInterval returns the interval between two order statistics of x that
// covers the p-quantile of what x was drawn from, 0 < p < 1. Each side errs at
// most (1−confidence)/2 of the time, by the binomial distribution of the number
// of values below the quantile. It returns false where x is too small for p.
func QuantileInterval(x []float64, p, confidence float64) (Interval, bool) {
	n := len(x)
	if !(p > 0 && p < 1) || !validLevel(confidence) || !allUsable(x) {
		return noInterval(), false
	}
	tail := errorRate(confidence) / 2
	// The quantile lies below the l-th smallest value where fewer than l
	// values are below it, and above the u-th where u or more are.
	l := sort.Search(n, func(k int) bool { return binomialLower(k, n, p) > tail })
	u := 1 + sort.Search(n, func(k int) bool { return binomialUpper(k+1, n, p) <= tail })
	if l < 1 || u > n {
		return noInterval(), false
	}
	s := sorted(x)
	level := 1 - binomialLower(l-1, n, p) - binomialUpper(u, n, p)
	return Interval{s[l-1], s[u-1], level}, true
}
