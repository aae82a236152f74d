package odd

import (
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

// A table is one group of nodes in one metric. Lists are by node of the group, which nodes maps to the input's.
type table struct {
	nodes   []int
	values  [][]float64 // by round; NaN = none
	effects [][]float64 // values less the center of those measured at once; NaN = none, or nobody to compare with
	sets    []set
	count   int // nodes that have values

	sizes [][]int // of the sets that a node was in, sorted
	tests int     // metrics, times groups, that hold together
	// What the ranks say, that a node is elsewhere or that it varies more: the p-values, alone and for all nodes and
	// metrics together; NaN = not tested.
	p, pNoise, adjusted, adjustedNoise []float64

	estimates, noises []float64 // Hodges–Lehmann over the rounds, and 1.4826 MAD
}

// A set is some nodes that were measured at once, so that what they have in common cancels.
type set struct {
	round int
	nodes []int
}

func newTable(metric *Metric, nodes []int) *table {
	n := len(nodes)
	t := &table{
		nodes: nodes, values: make([][]float64, n), effects: make([][]float64, n), sizes: make([][]int, n),
		adjusted: make([]float64, n), adjustedNoise: make([]float64, n),
		estimates: make([]float64, n), noises: make([]float64, n),
	}
	rounds := 0
	for i, node := range nodes {
		t.values[i] = valuesOf(metric.Values, node)
		t.count += min(1, t.rounds(i))
		rounds = max(rounds, len(t.values[i]))
	}
	for j := range rounds {
		t.addSets(metric, j)
	}
	t.subtract(make([]bool, n))
	t.rank()
	return t
}

// subtract makes the effects: each value less what its set has in common, the median of those nodes in it that are not
// left out, or of all if nobody is left. In a group of two, each is compared with the other.
func (t *table) subtract(leftOut []bool) {
	for i, values := range t.values {
		t.effects[i] = slices.Repeat([]float64{math.NaN()}, len(values))
	}
	for _, s := range t.sets {
		values := make([]float64, 0, len(s.nodes))
		for _, i := range s.nodes {
			if !leftOut[i] {
				values = append(values, t.values[i][s.round])
			}
		}
		if len(values) == 0 {
			for _, i := range s.nodes {
				values = append(values, t.values[i][s.round])
			}
		}
		center := stat.Median(values)
		for _, i := range s.nodes {
			e := t.values[i][s.round] - center
			if t.count == 2 {
				e *= 2 // their median lies half way between them
			}
			t.effects[i][s.round] = e
		}
	}
}

// effectsOf returns the effects that a node has.
func (t *table) effectsOf(i int) []float64 { return present(t.effects[i]) }

// rounds returns in how many rounds a node has a value.
func (t *table) rounds(i int) int { return len(present(t.values[i])) }

// center returns the median of the nodes' medians, in the metric's unit.
func (t *table) center() float64 {
	var medians []float64
	for _, values := range t.values {
		if v := present(values); len(v) > 0 {
			medians = append(medians, stat.Median(v))
		}
	}
	return math.Exp(stat.Median(medians))
}

// standardError returns that of the estimates of nodes with some noise.
func (t *table) standardError(measured []int, noise float64) float64 {
	var rounds []float64
	for _, i := range measured {
		rounds = append(rounds, float64(len(t.effectsOf(i))))
	}
	return noise / math.Sqrt(stat.Median(rounds))
}

// present returns the values that there are.
func present(x []float64) []float64 {
	some := make([]float64, 0, len(x))
	for _, v := range x {
		if !math.IsNaN(v) {
			some = append(some, v)
		}
	}
	return some
}

// valuesOf returns a node's values by round. What is no logarithm of a number is NaN.
func valuesOf(all [][]float64, node int) []float64 {
	if node >= len(all) {
		return nil
	}
	values := slices.Clone(all[node])
	for j, v := range values {
		if !(math.Abs(v) <= 700) {
			values[j] = math.NaN()
		}
	}
	return values
}

// addSets finds who was measured at once in a round.
func (t *table) addSets(metric *Metric, round int) {
	waves := map[int][]int{}
	for i, node := range t.nodes {
		if round >= len(t.values[i]) || math.IsNaN(t.values[i][round]) {
			continue
		}
		wave := 0
		if round < len(metric.Waves) && node < len(metric.Waves[round]) {
			wave = metric.Waves[round][node]
		}
		waves[wave] = append(waves[wave], i)
	}
	for _, nodes := range waves {
		if len(nodes) > 1 {
			t.sets = append(t.sets, set{round, nodes})
		}
	}
}
