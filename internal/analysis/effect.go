package analysis

import (
	"math"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

// An effect is one cell against the baseline, block by block.
type effect struct {
	cell       int
	scale      bench.Scale
	diffs      []float64 // one for each pair: difference of logarithms, or of values
	blockIndex []int     // the block of each pair, as an index in table.blocks
	// dropped counts the pairs whose values the scale cannot compare.
	dropped int
	cmp     *Comparison
}

// newEffect pairs two columns and tests the pairs.
func newEffect(cell int, x, baseline []float64, scale bench.Scale) *effect {
	e := &effect{cell: cell, scale: scale}
	for block, v := range x {
		b := baseline[block]
		if math.IsNaN(v) || math.IsNaN(b) {
			continue // a hole: one of the two trials did not succeed
		}
		if d := distance(v, b, scale); isUsable(d) {
			e.diffs = append(e.diffs, d)
			e.blockIndex = append(e.blockIndex, block)
		} else {
			e.dropped++
		}
	}
	e.test()
	return e
}

// distance returns how far v is above the baseline's b; NaN or infinite if the scale
// cannot compare them.
func distance(v, b float64, scale bench.Scale) float64 {
	if scale == bench.Difference {
		return v - b
	}
	if v <= 0 || b <= 0 {
		return math.NaN()
	}
	return math.Log(v) - math.Log(b)
}

// fromDistance converts a distance back to a ratio or a difference.
func fromDistance(d float64, scale bench.Scale) float64 {
	if scale == bench.Difference {
		return d
	}
	return math.Exp(d)
}

// test fills in the comparison as far as it depends on this effect alone.
func (e *effect) test() {
	nan := math.NaN()
	e.cmp = &Comparison{
		Scale: e.scale, Pairs: len(e.diffs), Estimate: nan, Low: nan, High: nan, P: nan, Adjusted: nan, Verdict: NotCompared,
	}
	if len(e.diffs) == 0 {
		return
	}
	s := stat.SignedRank(e.diffs, confidence)
	e.cmp.fill(s.Estimate, s.Interval, s.OK, s.P)
}

// shift gives a ratio's effect in the metric's unit. It is estimated from the same pairs, since a
// ratio times a median would be neither.
func (e *effect) shift(x, baseline []float64) {
	if e.scale == bench.Difference || len(e.diffs) == 0 {
		return
	}
	d := make([]float64, len(e.blockIndex))
	for i, block := range e.blockIndex {
		d[i] = x[block] - baseline[block]
	}
	s := stat.SignedRank(d, confidence)
	e.cmp.Shift = &Shift{Estimate: s.Estimate, Low: math.NaN(), High: math.NaN()}
	if s.OK {
		e.cmp.Shift.Low, e.cmp.Shift.High = s.Interval.Low, s.Interval.High
	}
}

// fill takes the results of a test, which are on the scale of distances.
func (c *Comparison) fill(estimate float64, interval stat.Interval, ok bool, p float64) {
	c.Estimate = fromDistance(estimate, c.Scale)
	c.P = p
	if !ok {
		return
	}
	c.HasInterval = true
	c.Low, c.High = fromDistance(interval.Low, c.Scale), fromDistance(interval.High, c.Scale)
	c.Level = interval.Level
}

// decide gives the verdict of one comparison at the level alpha. P must be adjusted already; same
// says that any difference is too small to matter. The control is not considered here.
func (c *Comparison) decide(better bench.Direction, same bool, alpha float64) Verdict {
	switch {
	case math.IsNaN(c.P):
		return NotCompared
	case same:
		return Same
	case !(c.Adjusted < alpha) || !c.HasInterval || c.sign() == 0:
		return Unclear
	case better == bench.Neither:
		return Different
	case (c.sign() > 0) == (better == bench.Higher):
		return Better
	default:
		return Worse
	}
}

// unless turns "same" into "unclear" if the machine is too noisy to say "same".
func (v Verdict) unless(noisy bool) Verdict {
	if noisy && v == Same {
		return Unclear
	}
	return v
}

// withoutClaim turns a verdict that claims something into "unclear". So is "same": it too may be
// wrong with the probability that its level allows, once for each look. Only "unreliable" stays,
// which takes back and does not claim.
func (v Verdict) withoutClaim() Verdict {
	switch v {
	case Worse, Better, Different, Same:
		return Unclear
	default:
		return v
	}
}

// blocksToSeparate estimates how many blocks a run needs until the interval excludes "no
// difference", if the estimate stays as it is; 0 = unknown. It is an order of
// magnitude: the interval is not adjusted, but the test is one of a family.
func (e *effect) blocksToSeparate(family, blocks int, at look) int {
	size := math.Abs(toDistance(e.cmp.Estimate, e.scale))
	if !e.cmp.HasInterval || size == 0 {
		return 0
	}
	return e.inBlocks(max(pairsFor(e.diffs, size, at.confidence()), at.minPairs(family)), blocks)
}

// blocksToEquivalence estimates how many blocks a run needs until the interval lies inside ±delta;
// 0 = unknown.
func (e *effect) blocksToEquivalence(delta float64, blocks int, at look) int {
	if e.scale != bench.Difference {
		delta = math.Log1p(delta)
	}
	room := delta - math.Abs(toDistance(e.cmp.Estimate, e.scale))
	if !e.cmp.HasInterval || room <= 0 {
		return 0
	}
	return e.inBlocks(pairsFor(e.diffs, room, at.confidence()), blocks)
}

// blocksToHalfWidth estimates how many blocks a run needs until the interval is as short as
// ±delta; 0 = unknown.
func (e *effect) blocksToHalfWidth(delta float64, blocks int) int {
	if e.scale != bench.Difference {
		delta = math.Log1p(delta)
	}
	return e.inBlocks(pairsFor(e.diffs, delta, confidence), blocks)
}

// nearest and furthest are how far the ends of the interval are from no difference, as distances. nearest is 0 if the
// interval contains that, or if there is none.
func (e *effect) nearest() float64 {
	low, high := toDistance(e.cmp.Low, e.scale), toDistance(e.cmp.High, e.scale)
	if !e.cmp.HasInterval || low <= 0 && high >= 0 {
		return 0
	}
	return min(math.Abs(low), math.Abs(high))
}

// furthest is NaN without an interval, which what differs has.
func (e *effect) furthest() float64 {
	return max(math.Abs(toDistance(e.cmp.Low, e.scale)), math.Abs(toDistance(e.cmp.High, e.scale)))
}

// inBlocks converts a number of pairs to a number of blocks. It assumes that the
// same share of pairs is lost as so far. It is 0 beyond bench.MaxBlocks.
func (e *effect) inBlocks(pairs, blocks int) int {
	need := int(math.Ceil(float64(pairs) * float64(blocks) / float64(len(e.diffs))))
	if need > bench.MaxBlocks {
		return 0
	}
	return max(roundUp(need), blocks+1)
}

// pairsFor is stat.PairsFor, with an upper bound in place of "unknown".
func pairsFor(d []float64, halfWidth, confidence float64) int {
	n := stat.PairsFor(d, halfWidth, confidence)
	if n == 0 {
		return bench.MaxBlocks + 1
	}
	return min(n, bench.MaxBlocks+1)
}

// toDistance converts a ratio or a difference to a distance.
func toDistance(v float64, scale bench.Scale) float64 {
	if scale == bench.Difference {
		return v
	}
	return math.Log(v)
}
