// Package stat is the mathematics of a result: estimates, intervals and tests
// on plain []float64.
//
// It assumes little about how measurements are distributed, because they are
// skewed, heavy-tailed and drifting. Effects are Hodges–Lehmann estimates, with
// intervals that invert the Wilcoxon signed-rank test (paired samples) or the
// Mann–Whitney test (independent ones): Hollander, Wolfe & Chicken,
// Nonparametric Statistical Methods, 3rd edition, sections 3.1–3.3 and 4.1–4.3.
//
// Three rules hold everywhere:
//
//   - An input is never modified or retained.
//   - Test and interval agree: P ≤ 1−confidence exactly where there is an
//     interval and it, ends included, does not contain 0. Ties and zeros
//     therefore count against rejection in full, and not by half as midranks
//     do: both stay valid, if conservative, for coarse data.
//   - Callers filter. Where an input holds NaN, an infinity, or a value beyond
//     ±4e307 (whose sums overflow), the results are NaN and OK is false.
//
// All functions may be called concurrently.
package stat

import (
	"math"
	"slices"
)

// An Interval is a closed confidence interval.
type Interval struct {
	Low, High float64
	// Level is the confidence level that was achieved, such as 0.951. For
	// the exact methods it is at or just above what was asked for, since a
	// discrete distribution offers only some levels.
	Level float64
}

// HalfWidth returns half the length of the interval.
func (i Interval) HalfWidth() float64 { return (i.High - i.Low) / 2 }

// Contains reports whether v lies in the interval, ends included.
func (i Interval) Contains(v float64) bool { return i.Low <= v && v <= i.High }

// noInterval stands for no interval: it contains nothing, and a caller that
// forgets to check OK prints NaN and not a plausible zero.
func noInterval() Interval { return Interval{Low: math.NaN(), High: math.NaN()} }

// maxMagnitude bounds the magnitude of inputs so that no sum or difference of two
// of them, nor of two such sums, overflows.
const maxMagnitude = math.MaxFloat64 / 4

// allUsable reports whether every value is finite and can be added to another.
func allUsable(x []float64) bool {
	for _, v := range x {
		if !(math.Abs(v) <= maxMagnitude) { // also false for NaN
			return false
		}
	}
	return true
}

// sorted returns a sorted copy of x.
func sorted(x []float64) []float64 {
	s := slices.Clone(x)
	slices.Sort(s)
	return s
}

// validLevel reports whether confidence is a level that an interval can have.
func validLevel(confidence float64) bool { return confidence > 0 && confidence < 1 }

// errorRate returns 1−confidence, raised by a negligible amount, so that 0.9 allows
// an error of 2/20 although 1−0.9 < 0.1 in binary.
func errorRate(confidence float64) float64 { return (1 - confidence) * (1 + 1e-12) }
