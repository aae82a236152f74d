package pairs

import (
	"math"
	"slices"
	"sort"
)

// belowSum is the probability that the sum of m independent values, each equally likely anywhere from 0 to 1, is at
// most s: the distribution of Irwin and Hall. It is that of m ranks, each divided by how many there are, if nothing
// differs; the sums of such ranks vary a little less, so it errs towards "nothing differs".
func belowSum(s float64, m int) float64 {
	switch {
	case s <= 0:
		return 0
	case s > float64(m)/2: // where the alternating sum is less exact
		return 1 - belowSum(float64(m)-s, m)
	case m > 30: // nor is it exact here; the normal distribution has longer tails
		return math.Erfc((float64(m)/2-s)/math.Sqrt(float64(m)/6)) / 2
	}
	sum, sign := 0.0, 1.0
	for k := 0; float64(k) < s; k++ {
		a, _ := math.Lgamma(float64(k + 1))
		b, _ := math.Lgamma(float64(m - k + 1))
		sum += sign * math.Exp(float64(m)*math.Log(s-float64(k))-a-b)
		sign = -sign
	}
	return min(max(sum, 0), 1)
}

// twoSided is how often a sum of m such values is at least as far from its middle.
func twoSided(s float64, m int) float64 {
	return min(1, 2*belowSum(min(s, float64(m)-s), m))
}

// relativeRanks returns where each value stands among all: from just above 0 to just below 1, the mean of it for those
// that are equal.
func relativeRanks(x []float64) []float64 {
	sorted := slices.Sorted(slices.Values(x))
	ranks := make([]float64, len(x))
	for i, v := range x {
		low := sort.SearchFloat64s(sorted, v)
		high := sort.Search(len(sorted), func(k int) bool { return sorted[k] > v })
		ranks[i] = float64(low+high) / 2 / float64(len(x))
	}
	return ranks
}

// A sample is some values among many: the rests of one link among those of all.
type sample struct {
	own []float64 // sorted
	all []float64 // sorted; has the own ones, too
}

// places is the sum of where the own values, less by, stand among the others: each from 0 to 1. Few others make it
// vary more than a sum of independent values; it is drawn towards its middle by as much.
func (s sample) places(by float64) float64 {
	m, others := len(s.own), len(s.all)-len(s.own)
	sum := 0.0
	for _, v := range s.own {
		v -= by
		below := sort.SearchFloat64s(s.all, v) - sort.SearchFloat64s(s.own, v)
		sum += (float64(below) + 0.5) / float64(others+1)
	}
	middle := float64(m) / 2
	return middle + (sum-middle)/math.Sqrt(1+float64(m+1)/float64(max(others, 1)))
}

// p is how often own values would be this far from the others if nothing differed.
func (s sample) p() float64 { return twoSided(s.places(0), len(s.own)) }

// interval returns the shifts of the own values that this test does not reject at 5 %. It is no wider than the others
// are, which is all that few values can say.
func (s sample) interval() (low, high float64) {
	m := len(s.own)
	first, last := s.own[0]-s.all[len(s.all)-1], s.own[m-1]-s.all[0]
	find := func(rejects func(by float64) bool, from, to float64) float64 {
		for range 50 { // rejected at from, not at to
			middle := (from + to) / 2
			if rejects(middle) {
				from = middle
			} else {
				to = middle
			}
		}
		return to
	}
	center := s.own[m/2] - s.all[len(s.all)/2]
	low = find(func(by float64) bool { return belowSum(float64(m)-s.places(by), m) < 0.025 }, min(first, center), center)
	high = find(func(by float64) bool { return belowSum(s.places(by), m) < 0.025 }, max(last, center), center)
	return low, high
}
