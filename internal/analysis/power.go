package analysis

import (
	"math"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

// detectable estimates the smallest difference that a run like this one confirms, as larger than
// delta, in four of five cases. The standard error comes from the plain interval, which covers
// ± z of it. The adjusted test rejects beyond the z of its level in a family, so a true difference
// must lie 0.84 standard errors further out. It is 0 if there is no interval, or if no
// difference could be confirmed.
func (e *effect) detectable(delta float64, family int, at look) float64 {
	c := e.cmp
	if !c.HasInterval || c.Pairs < at.minPairs(family) {
		return 0
	}
	low, high := toDistance(c.Low, c.Scale), toDistance(c.High, c.Scale)
	if c.Scale != bench.Difference {
		delta = math.Log1p(delta)
	}
	se := (high - low) / 2 / stat.Normal((1+c.Level)/2)
	critical := stat.Normal(1-at.alpha()/2/float64(max(family, 1))) * se
	return fromDistance(max(critical, delta)+stat.Normal(0.8)*se, c.Scale)
}
