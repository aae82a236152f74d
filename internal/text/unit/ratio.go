package unit

import (
	"math"
	"strconv"
	"strings"
)

// nearOne is how far from 1 a ratio is read more easily as a percentage.
const nearOne = 0.25

// FormatRatio writes a ratio in the form that is read most easily: "+1.2 %" or
// "−0.4 %" where it is less than a quarter away from 1, else "×6.53".
func FormatRatio(r float64) string { return FormatRatios(r)[0] }

// FormatRatios writes several ratios in the form that suits the first, so that
// an estimate and the ends of its interval can be compared.
func FormatRatios(first float64, others ...float64) []string {
	form := formatFactor
	if math.Abs(first-1) < nearOne {
		form = formatChange
	}
	out := []string{form(first)}
	for _, r := range others {
		out = append(out, form(r))
	}
	return out
}

// formatFactor writes a ratio as a factor. No ratio is negative.
func formatFactor(r float64) string {
	switch {
	case math.IsNaN(r) || r < 0:
		return None
	case r != 0 && r < 1000 && r == math.Trunc(r):
		return "×" + strconv.FormatFloat(r, 'f', max(0, 2-exponent(r)), 64) // ×2.00: a measured 2, not a counted one
	default:
		return "×" + number(r)
	}
}

// formatChange writes a ratio as a signed change in percent, with one decimal, and
// with two where one would show nothing.
func formatChange(r float64) string {
	percent := (r - 1) * 100
	size := math.Abs(percent)
	switch {
	case math.IsNaN(r) || r < 0:
		return None
	case size < 0.005:
		return "0.0 %"
	case math.IsInf(r, 1):
		return "+∞ %"
	}
	digits := 1
	if size < 0.095 {
		digits = 2
	} else if size >= 99.95 {
		digits = 0
	}
	s := groupThousands(strconv.FormatFloat(size, 'f', digits, 64)) + " %"
	if percent < 0 {
		return minus + s
	}
	return "+" + s
}

// FormatPercent writes a share, such as 0.03 as "3 %" and 0.0355 as "3.55 %":
// three significant digits at most, without zeros that say nothing.
func FormatPercent(share float64) string {
	if math.IsNaN(share) {
		return None
	}
	// Rounded first: 0.07 × 100 is not quite 7.
	percent := math.Round(share*1e7) / 1e5
	if math.IsInf(percent, 0) {
		percent = share
	}
	n := number(percent)
	if strings.Contains(n, ".") && !strings.Contains(n, "e") {
		n = strings.TrimRight(strings.TrimRight(n, "0"), ".")
	}
	return n + " %"
}
