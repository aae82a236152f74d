package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// normalLower returns P(Z ≤ z) for a standard normal Z.
func normalLower(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// normalTwoSided returns P(|Z| ≥ |z|).
func normalTwoSided(z float64) float64 { return math.Erfc(math.Abs(z) / math.Sqrt2) }

// Normal returns the quantile p of a standard normal variable, for 0 < p < 1.
func Normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// normalWithin returns the z for which P(|Z| ≤ z) is the given confidence.
func normalWithin(confidence float64) float64 {
	return math.Sqrt2 * math.Erfinv(confidence)
}

// studentTwoSided returns P(|T| ≥ |t|) for Student's T with df degrees of
// freedom, df > 0.
func studentTwoSided(t, df float64) float64 {
	if math.IsInf(t, 0) {
		return 0
	}
	return mathext.RegIncBeta(df/2, 0.5, df/(df+t*t))
}

// binomialLower returns P(B ≤ k) for a binomial B of n trials that succeed
// with probability p.
func binomialLower(k, n int, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}

// binomialUpper returns P(B ≥ k).
func binomialUpper(k, n int, p float64) float64 { return binomialLower(n-k, n, 1-p) }
