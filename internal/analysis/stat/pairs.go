package stat

import "math"

// pairs are the sums (or differences) of pairs of values: as many as the
// square of the sample. They are never listed; they are counted, which sorted
// samples allow in linear time.
type pairs struct {
	total    int
	min, max float64
	// split returns how many are at most v, the largest of those, and the
	// smallest of the others; ∓Inf where there is none.
	split func(v float64) (n int, below, above float64)
}

// kth returns the k-th smallest, 1 ≤ k ≤ total. It bisects the ordered list of
// all float64, so the result is exact and takes at most 64 counts. It takes far
// fewer as a rule, because each count moves an end to a value that exists.
func (p pairs) kth(k int) float64 {
	lo, hi := p.min, p.max
	for lo < hi {
		n, below, above := p.split(between(lo, hi))
		if n >= k {
			hi = below
		} else {
			lo = above
		}
	}
	return hi
}

// median returns the middle one, or half way between the two middle ones.
func (p pairs) median() float64 {
	a := p.kth((p.total + 1) / 2)
	if p.total%2 == 1 {
		return a
	}
	b := a
	if n, _, above := p.split(a); n == p.total/2 {
		b = above
	}
	return (a + b) / 2
}

// signCount returns the smaller of the number of pairs at or below 0 and the
// number at or above: what speaks against an effect in the direction of the
// others. Pairs that are 0 speak against both.
func (p pairs) signCount() int {
	atMost, _, _ := p.split(0)
	less, _, _ := p.split(-math.SmallestNonzeroFloat64)
	return min(atMost, p.total-less)
}

// between returns the float64 half way from lo to hi in the list of all
// float64, lo included and hi not. In a list and not on a line: that many
// powers of two lie between the ends must not matter.
func between(lo, hi float64) float64 {
	a, b := position(lo), position(hi)
	return atPosition(a + int64(uint64(b-a)/2))
}

// position numbers all finite float64 in increasing order; both zeros are 0.
func position(f float64) int64 {
	i := int64(math.Float64bits(f))
	if i < 0 {
		return math.MinInt64 - i
	}
	return i
}

// atPosition is the inverse of position.
func atPosition(i int64) float64 {
	if i < 0 {
		i = math.MinInt64 - i
	}
	return math.Float64frombits(uint64(i))
}

// pairSums are x[i]+x[j] for i ≤ j: twice the Walsh averages of a sorted x.
func pairSums(x []float64) pairs {
	n := len(x)
	split := func(v float64) (count int, below, above float64) {
		below, above = math.Inf(-1), math.Inf(1)
		j := n - 1 // the last partner of x[i] with a sum of at most v
		for i := range x {
			for j >= i && x[i]+x[j] > v {
				j--
			}
			if j+1 < n {
				above = min(above, x[i]+x[j+1])
			}
			if j < i {
				break // so are all later sums
			}
			count += j - i + 1
			below = max(below, x[i]+x[j])
		}
		return count, below, above
	}
	return pairs{n * (n + 1) / 2, x[0] + x[0], x[n-1] + x[n-1], split}
}

// pairDifferences are x[i]−y[j] for all i and j of sorted x and y.
func pairDifferences(x, y []float64) pairs {
	m, n := len(x), len(y)
	split := func(v float64) (count int, below, above float64) {
		below, above = math.Inf(-1), math.Inf(1)
		j := 0 // the first y that is at most v below x[i]
		for i := range x {
			for j < n && x[i]-y[j] > v {
				j++
			}
			if j > 0 {
				above = min(above, x[i]-y[j-1])
			}
			if j == n {
				break // so are all later differences
			}
			count += n - j
			below = max(below, x[i]-y[j])
		}
		return count, below, above
	}
	return pairs{m * n, x[0] - y[n-1], x[m-1] - y[0], split}
}
