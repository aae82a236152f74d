package odd

import (
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

// An extreme is how far the outermost of n alike nodes is from the median of all, in 95 % of samples, in units of
// their spread: normal values are assumed.
type extreme struct {
	n float64
	z float64
	// more is the factor for each doubling of the number of metrics in which none may be further out.
	more float64
}

// extremes were simulated; TestCoverageOfExtremes does so again. Of few nodes, an odd number has a smaller MAD.
var extremes = []extreme{
	{8, 5.05, 1.22},
	{9, 5.05, 1.225},
	{10, 4.57, 1.19},
	{11, 4.68, 1.185},
	{12, 4.37, 1.165},
	{13, 4.43, 1.165},
	{14, 4.23, 1.145},
	{15, 4.28, 1.145},
	{16, 4.14, 1.133},
	{20, 4.03, 1.118},
	{30, 3.86, 1.093},
	{50, 3.75, 1.076},
	{100, 3.75, 1.060},
	{300, 3.87, 1.043},
	{1000, 4.10, 1.036},
	{3000, 4.32, 1.032},
	{10000, 4.58, 1.030},
}

// largest returns how far, in units of the spread, the outermost of n alike nodes may be in any of some metrics: in
// 5 % of fleets one is further. It is interpolated in the logarithm of n.
func largest(n, metrics int) float64 {
	at := slices.IndexFunc(extremes, func(e extreme) bool { return e.n >= float64(n) })
	e := extremes[len(extremes)-1]
	switch {
	case at == 0:
		e = extremes[0]
	case at > 0:
		low, high := extremes[at-1], extremes[at]
		share := math.Log(float64(n)/low.n) / math.Log(high.n/low.n)
		e.z = low.z + share*(high.z-low.z)
		e.more = low.more + share*(high.more-low.more)
	}
	return e.z * math.Pow(e.more, math.Log2(float64(metrics)))
}

// kinds returns how many of the estimates, in their order, are of the lower of two kinds, and the spread within the
// kinds; 0 if they are of one kind, or few are of the other, so that those are odd.
//
// There are two kinds if each is half of the nodes, or both are at least three nodes and more than a third; if the gap
// between them is wider than the given distance; and if they are far apart against the spread within. So one of three
// nodes is odd, and of four that are two and two nobody can say which is.
func kinds(estimates []float64, distance float64) (lower int, within float64) {
	s := slices.Clone(estimates)
	slices.Sort(s)
	widest := 0.0
	for low := 2; low <= len(s)-2; low++ {
		few := min(low, len(s)-low)
		if gap := s[low] - s[low-1]; (2*few == len(s) || few >= 3 && 3*few > len(s)) && gap > widest {
			lower, widest = low, gap
		}
	}
	if lower == 0 {
		return 0, 0
	}
	var d []float64
	for _, side := range [][]float64{s[:lower], s[lower:]} {
		center := stat.Median(side)
		for _, v := range side {
			d = append(d, math.Abs(v-center))
		}
	}
	within = 1.4826 * stat.Median(d)
	// The two halves of one kind of nodes are two to three times the spread within them apart, of few nodes more.
	times := 5.0
	if len(s) < 20 {
		times = 8
	}
	if widest <= distance || stat.Median(s[lower:])-stat.Median(s[:lower]) <= times*within {
		return 0, 0
	}
	return lower, within
}
