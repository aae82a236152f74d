package analysis

import (
	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

// A look is which one a verdict is given at: 1, and one more each time that the run was
// extended after it had ended.
type look int

// alpha is what tests may spend at this look: the probability of one false alarm or more
// in a family. All looks at a run together have 5 %.
func (l look) alpha() float64 { return bench.LookLevel(int(l)) }

// confidence is the level of the interval that has to lie inside ±δ before something is
// the same: the plain one at the first look. It is wrong on one side only, so that its
// 2.5 % leave 2.5 % for all further looks.
func (l look) confidence() float64 {
	if l <= 1 {
		return confidence
	}
	return 1 - l.alpha()
}

// minPairs is how many pairs it takes at least to tell a difference, however large, among
// so many comparisons.
func (l look) minPairs(family int) int { return stat.MinPairs(1-l.alpha(), family) }

// same reports whether any difference is too small to be worth knowing: the whole interval
// is within ±delta of none, and that of the look's own level too.
func (e *effect) same(delta float64, at look) bool {
	if at <= 1 || !e.cmp.inside(delta) {
		return e.cmp.inside(delta)
	}
	s := stat.SignedRank(e.diffs, at.confidence())
	wide := Comparison{Scale: e.scale}
	wide.fill(s.Estimate, s.Interval, s.OK, s.P)
	return wide.inside(delta)
}

// decide gives the verdict at a look. Neither the family nor the control are its business.
func (e *effect) decide(better bench.Direction, delta float64, at look) Verdict {
	return e.cmp.decide(better, e.same(delta, at), at.alpha())
}
