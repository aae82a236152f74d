package stat

import (
	"math"
	"slices"
)

// Trend measures drift: Spearman's rank correlation of x with the order in
// which it was measured, and the two-sided p-value of there being none.
//
// The p-value is that of Student's t with n−2 degrees of freedom, but never
// below 2/n!, the probability of perfect order by chance. A constant x has
// rho 0 and p 1. Below 3 values, or with NaN among them, both are NaN.
func Trend(x []float64) (rho, p float64) {
	n := len(x)
	if n < 3 || !allUsable(x) {
		return math.NaN(), math.NaN()
	}
	order := make([]float64, n)
	for i := range order {
		order[i] = float64(i)
	}
	rho = RankCorrelation(x, order)
	df := float64(n - 2)
	t := rho * math.Sqrt(df/((1-rho)*(1+rho)))
	return rho, max(studentTwoSided(t, df), 2/math.Gamma(float64(n)+1))
}

// ranks returns the rank of each value, from 1; ties share their mean rank.
func ranks(x []float64) []float64 {
	s := sorted(x)
	r := make([]float64, len(x))
	for i, v := range x {
		first, _ := slices.BinarySearch(s, v)
		after, _ := slices.BinarySearch(s, math.Nextafter(v, math.Inf(1)))
		r[i] = float64(first+1+after) / 2
	}
	return r
}

// Autocorrelation returns the correlation of x with itself lag places later,
// and the two-sided p-value of its values being independent.
//
// The p-value is normal, with the exact mean and variance that the coefficient
// has for independent normal values (Dufour & Roy 1985), both of which differ
// from 0 and 1/n where n is small. A constant x has r 0 and p 1. Unless
// 1 ≤ lag and 2·lag < n, or with unusable values, both are NaN.
func Autocorrelation(x []float64, lag int) (r, p float64) {
	if lag < 1 || 2*lag >= len(x) || !allUsable(x) {
		return math.NaN(), math.NaN()
	}
	centred := centre(x)
	var cross, square float64
	for i, v := range centred {
		square += v * v
		if i >= lag {
			cross += v * centred[i-lag]
		}
	}
	if square == 0 {
		return 0, 1
	}
	r = cross / square
	n, k := float64(len(x)), float64(lag)
	mean := -(n - k) / (n * (n - 1))
	variance := (n*n*n*n - (k+3)*n*n*n + 3*k*n*n + 2*k*(k+1)*n - 4*k*k) / ((n + 1) * n * n * (n - 1) * (n - 1))
	return r, normalTwoSided((r - mean) / math.Sqrt(variance))
}

// centre returns x less its mean, scaled so that squares neither overflow nor
// vanish.
func centre(x []float64) []float64 {
	lo, hi := slices.Min(x), slices.Max(x)
	c := make([]float64, len(x))
	if lo == hi {
		return c
	}
	var sum float64
	for i, v := range x {
		c[i] = (v - lo) / (hi - lo)
		sum += c[i]
	}
	mean := sum / float64(len(x))
	for i := range c {
		c[i] -= mean
	}
	return c
}
