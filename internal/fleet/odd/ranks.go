package odd

import (
	"cmp"
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

// exactUpTo is the number of rounds up to which the null distribution is counted out. Beyond it, it is taken to be
// normal, which errs to the safe side: sums of uniform ranks have lighter tails.
const exactUpTo = 50

// rank tests each node: whether its ranks among the nodes that were measured at once are higher or lower than
// chance would have them, and whether those of its distances from its own median are higher.
//
// Were all nodes alike, a node's rank in each round would be uniform, whatever the noise and the rounds' common
// drift: the sum of its ranks has a known distribution. Ties count against an effect in full, as in package stat:
// midranks beside a distribution without ties would reject too often.
func (t *table) rank() {
	n := len(t.nodes)
	below, above, steady := make([]int, n), make([]int, n), make([]int, n)
	distances := make([][]float64, n)
	for i, effects := range t.effects {
		own := stat.Median(t.effectsOf(i))
		for _, e := range effects {
			distances[i] = append(distances[i], math.Abs(e-own))
		}
	}
	for _, s := range t.sets {
		s.countRanks(t.values, below, above)
		s.countRanks(distances, make([]int, n), steady)
		for _, i := range s.nodes {
			t.sizes[i] = append(t.sizes[i], len(s.nodes))
		}
	}
	t.p, t.pNoise = make([]float64, n), make([]float64, n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
		slices.Sort(t.sizes[i])
	}
	// Nodes that were in sets of the same sizes share a distribution, which is large: one at a time is kept.
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(t.sizes[a], t.sizes[b]) })
	var null func(int) float64
	for k, i := range order {
		if k == 0 || !slices.Equal(t.sizes[i], t.sizes[order[k-1]]) {
			null = sumOfRanks(t.sizes[i])
		}
		t.p[i] = min(1, 2*null(min(below[i], above[i])))
		t.pNoise[i] = null(steady[i])
	}
}

// pWithout is the p-value of a node by its ranks among the nodes that are not left out; 1 if there are none.
func (t *table) pWithout(leftOut []bool, node int) float64 {
	n := len(t.nodes)
	below, above := make([]int, n), make([]int, n)
	var sizes []int
	for _, s := range t.sets {
		s.nodes = slices.DeleteFunc(slices.Clone(s.nodes), func(i int) bool { return leftOut[i] })
		if slices.Contains(s.nodes, node) && len(s.nodes) > 1 {
			s.countRanks(t.values, below, above)
			sizes = append(sizes, len(s.nodes))
		}
	}
	if len(sizes) == 0 {
		return 1
	}
	return min(1, 2*sumOfRanks(sizes)(min(below[node], above[node])))
}

// countRanks adds to each node of a set how many others are at or below it, and how many at or above it.
func (s set) countRanks(values [][]float64, below, above []int) {
	value := func(i int) float64 { return values[i][s.round] }
	order := slices.Clone(s.nodes)
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(value(a), value(b)) })
	for first := 0; first < len(order); {
		last := first
		for last+1 < len(order) && value(order[last+1]) == value(order[first]) {
			last++
		}
		for _, i := range order[first : last+1] {
			below[i] += last
			above[i] += len(order) - 1 - first
		}
		first = last + 1
	}
}

// Fewest is how many rounds it takes at least to name one of so many nodes by one metric. So few are enough only if the
// node is the slowest in each of them. 0 if nobody can be named.
func Fewest(nodes int) int {
	if nodes < 3 {
		return 0
	}
	rounds := 0
	for p := 2.0; p*float64(nodes) > 1-confidence; p /= float64(nodes) {
		rounds++
	}
	return rounds
}

// leaveOut marks the nodes that the tests cannot name, whatever their ranks are: they have too few rounds, or
// nobody to be compared with.
func (t *table) leaveOut() {
	for i, sizes := range t.sizes {
		smallest := 2.0
		for _, n := range sizes {
			smallest /= float64(n)
		}
		if t.count < 3 || smallest*float64(t.tests*len(t.nodes)) > 1-confidence {
			t.p[i], t.pNoise[i] = math.NaN(), math.NaN()
		}
	}
}

// sumOfRanks returns P(S ≤ c) of S, the sum of independent ranks that are uniform on 0 to n−1 for each of the
// sizes n. It is symmetric about its middle.
func sumOfRanks(sizes []int) func(c int) float64 {
	total, variance := 0, 0.0
	for _, n := range sizes {
		total += n - 1
		variance += (float64(n)*float64(n) - 1) / 12
	}
	if len(sizes) > exactUpTo {
		return func(c int) float64 {
			z := (float64(c) + 0.5 - float64(total)/2) / math.Sqrt(variance)
			return math.Erfc(-z/math.Sqrt2) / 2
		}
	}
	lower := lowerSums(sizes)
	return func(c int) float64 {
		switch {
		case c < 0:
			return 0
		case c >= total:
			return 1
		case c < len(lower):
			return lower[c]
		}
		return 1 - lower[total-c-1]
	}
}

// lowerSums returns P(S ≤ c) for c up to the middle. The chances of each sum are those of the sums of one rank
// less, averaged over a window; each list is worked out up to its middle and mirrored, so that small chances are as
// precise as large ones.
func lowerSums(sizes []int) []float64 {
	chances := []float64{1}
	for _, n := range sizes {
		next := make([]float64, len(chances)+n-1)
		window := 0.0
		for c := 0; c <= (len(next)-1)/2; c++ {
			if c < len(chances) {
				window += chances[c]
			}
			if c >= n {
				window -= chances[c-n]
			}
			next[c] = window / float64(n)
			next[len(next)-1-c] = next[c]
		}
		chances = next
	}
	lower := make([]float64, (len(chances)+1)/2)
	sum := 0.0
	for c := range lower {
		sum += chances[c]
		lower[c] = sum
	}
	return lower
}
