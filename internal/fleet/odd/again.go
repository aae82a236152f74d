package odd

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

const (
	// leastAgain is how many rounds of the second pass a node needs to be judged by them.
	leastAgain = 3
	// besides is the least number of ordinary nodes in the second pass, where a group has that many.
	besides = 3
)

// Recheck lists the nodes of the second pass, in order: those suspected in any metric, and from the group of each as
// many ordinary ones, drawn by the seed, or three where fewer are suspected. It is empty if nobody is suspected.
func Recheck(in Input, r Result, seed uint64) []int {
	suspected := make([]bool, len(in.Nodes))
	usable := make([]bool, len(in.Nodes))
	for _, findings := range r.Findings {
		for i, f := range findings {
			suspected[i] = suspected[i] || f.Verdict == Suspect
			usable[i] = usable[i] || f.Verdict != NotMeasured
		}
	}
	random := rand.New(rand.NewPCG(seed, 2))
	var chosen []int
	for _, nodes := range groupsOf(&in) {
		var suspects, others []int
		for _, i := range nodes {
			switch {
			case suspected[i]:
				suspects = append(suspects, i)
			case usable[i]:
				others = append(others, i)
			}
		}
		if len(suspects) == 0 {
			continue
		}
		random.Shuffle(len(others), func(a, b int) { others[a], others[b] = others[b], others[a] })
		chosen = append(chosen, suspects...)
		chosen = append(chosen, others[:min(len(others), max(besides, len(suspects)))]...)
	}
	slices.Sort(chosen)
	return chosen
}

// secondPass returns the effects of suspects in the rounds of the second pass, beside the nodes that are not
// suspected. Of those others, what is known from the first pass is taken off, so that it does not matter which of
// them were drawn.
func (t *table) secondPass(metric *Metric, suspects []bool) [][]float64 {
	var rest [][]float64 // of the others, by round
	for i, node := range t.nodes {
		if suspects[i] || math.IsNaN(t.estimates[i]) {
			continue
		}
		for k, v := range valuesOf(metric.Again, node) {
			for len(rest) <= k {
				rest = append(rest, nil)
			}
			if !math.IsNaN(v) {
				rest[k] = append(rest[k], v-t.estimates[i])
			}
		}
	}
	centers := make([]float64, len(rest))
	for k := range rest {
		centers[k] = stat.Median(rest[k]) // NaN if there is none
	}
	effects := make([][]float64, len(t.nodes))
	for i, node := range t.nodes {
		if !suspects[i] {
			continue
		}
		for k, v := range valuesOf(metric.Again, node) {
			if k < len(centers) && !math.IsNaN(v-centers[k]) {
				effects[i] = append(effects[i], v-centers[k])
			}
		}
	}
	return effects
}

// confirmed returns the verdict of a suspect by its effects in the second pass. It is odd if both passes together are
// beyond the limit, and the second alone is so by half of it, to the same side. The whole limit in five rounds would
// be too much to ask: of what is just beyond it, every other estimate is below.
func (t *table) confirmed(i int, again []float64, limit float64, moreIsSlow bool) Verdict {
	if len(again) < leastAgain {
		return Suspect
	}
	side := math.Copysign(1, t.estimates[i])
	second := stat.SignedRank(again, confidence).Estimate
	both := stat.SignedRank(slices.Concat(t.effectsOf(i), again), confidence).Estimate
	switch {
	case !(side*second > limit/2 && side*both > limit):
		return Unconfirmed
	case (side > 0) == moreIsSlow:
		return Slow
	}
	return Fast
}
