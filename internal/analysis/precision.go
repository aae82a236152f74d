package analysis

import (
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

// consecutiveBlocks is the number of consecutive blocks after which a run must be precise: once
// may be luck.
const consecutiveBlocks = 3

// A Precision follows a run and says when it may stop: when the interval of each
// primary comparison is as short as the plan asks for its metric, after three
// consecutive blocks. It never looks at whether anything differs.
type Precision struct {
	plan          bench.Plan
	pairs         []*pairing
	givenUp       []bool   // cells that the run has given up
	succeeded     []bool   // cells that succeeded in the current block
	block         int      // the current block
	hasTrial      bool     // the current block has a trial
	blocks        int      // complete blocks
	row           int      // precise blocks in a row, up to now
	lastImprecise *pairing // not precise after the last block, so checked first; nil = none
}

// A pairing collects one primary comparison.
type pairing struct {
	cell, baseline, metric int
	scale                  bench.Scale
	target                 float64   // the half-width to reach, as a ratio; 0 = none
	x, b                   float64   // values of the current block; NaN until known
	diffs                  []float64 // as effect.diffs, in ascending order
	base                   []float64 // the baseline's values, for differences
	missing                int       // blocks in a row, up to now, in which both cells worked but gave no pair
}

// NewPrecision starts without samples. A plan that Analyze refuses is never precise.
func NewPrecision(plan bench.Plan, metrics []bench.Metric) *Precision {
	p := &Precision{plan: plan, givenUp: make([]bool, len(plan.Cells)), succeeded: make([]bool, len(plan.Cells))}
	t, err := newTable(&bench.Run{Header: bench.Header{Plan: plan, Metrics: metrics}})
	if err != nil {
		return p
	}
	for metric, role := range t.role {
		if role == bench.Primary {
			p.addComparisons(t, metric)
		}
	}
	return p
}

// addComparisons adds the comparisons of one metric.
func (p *Precision) addComparisons(t *table, metric int) {
	m := t.run.Header.Metrics[metric]
	for _, g := range t.groups {
		for _, cell := range g.cells {
			if cell == g.baseline {
				continue
			}
			p.pairs = append(p.pairs, &pairing{
				cell: cell, baseline: g.baseline, metric: metric,
				scale: m.Scale, target: p.plan.Margin(m.Name).Precision, x: math.NaN(), b: math.NaN(),
			})
		}
	}
}

// Add takes the next sample, in order of execution, with those from before a
// resumption. It does not retain the sample.
func (p *Precision) Add(s bench.Sample) {
	if s.Trial.Traced || s.Trial.Warmup() || s.Trial.Cell < 0 || s.Trial.Cell >= len(p.givenUp) {
		return
	}
	if s.Trial.Block != p.block {
		p.endBlock()
	}
	p.block, p.hasTrial = s.Trial.Block, true
	switch s.Outcome {
	case bench.Skipped, bench.Unsupported:
		p.givenUp[s.Trial.Cell] = true
	case bench.OK:
		p.givenUp[s.Trial.Cell] = false // a resumption may bring a cell back
		p.succeeded[s.Trial.Cell] = true
		p.addValues(s)
	case bench.Failed, bench.TimedOut, bench.Canceled:
	}
}

func (p *Precision) addValues(s bench.Sample) {
	for _, q := range p.pairs {
		v, ok := s.Value(q.metric)
		switch {
		case !ok:
		case s.Trial.Cell == q.cell:
			q.x = v
		case s.Trial.Cell == q.baseline:
			q.b = v
		}
	}
}

// Reached reports whether the plan's precision is reached with at least Plan.MinBlocks
// pairs: fewer could decide nothing. It is called after each block, when all samples of
// the block have been added.
func (p *Precision) Reached() bool {
	p.endBlock()
	few := func(q *pairing) bool { return len(q.diffs) < p.plan.MinBlocks && p.pending(q) }
	return p.row >= consecutiveBlocks && !slices.ContainsFunc(p.pairs, few)
}

// endBlock forms the pairs of the current block.
func (p *Precision) endBlock() {
	if !p.hasTrial {
		return
	}
	p.hasTrial = false
	p.blocks++
	for _, q := range p.pairs {
		q.endBlock(p.succeeded[q.cell] && p.succeeded[q.baseline])
	}
	clear(p.succeeded)
	if p.precise() {
		p.row++
	} else {
		p.row = 0
	}
}

// precise reports whether there are comparisons to wait for, and all of them are
// precise. One that was not precise after the last block is most likely still not:
// it is checked first, and usually saves the others.
func (p *Precision) precise() bool {
	tooWide := func(q *pairing) bool { return p.pending(q) && q.halfWidth() > q.target }
	if p.lastImprecise != nil && tooWide(p.lastImprecise) {
		return false
	}
	p.lastImprecise = nil
	if i := slices.IndexFunc(p.pairs, tooWide); i >= 0 {
		p.lastImprecise = p.pairs[i]
		return false
	}
	return slices.ContainsFunc(p.pairs, p.pending)
}

// pending reports whether the run waits for a comparison to become precise.
func (p *Precision) pending(q *pairing) bool { return q.target > 0 && !p.unreachable(q) }

// unreachable reports whether a comparison will never be precise, so that the run does
// not wait for it. That is a cell that the run has given up; a comparison without a
// value after Plan.MinBlocks blocks, or without one lately though nothing failed (a
// part of a survey was given up); or a difference from a baseline of 0, which has no
// relative size.
func (p *Precision) unreachable(q *pairing) bool {
	switch enough := p.blocks >= p.plan.MinBlocks; {
	case p.givenUp[q.cell] || p.givenUp[q.baseline]:
		return true
	case len(q.diffs) == 0:
		return enough
	case q.missing >= consecutiveBlocks:
		return true
	default:
		return enough && q.scale == bench.Difference && math.IsInf(q.halfWidth(), 1) && stat.Quantile(q.base, 0.5) == 0
	}
}

// endBlock forms the pair of a block. worked says whether both cells succeeded.
func (q *pairing) endBlock(worked bool) {
	if worked {
		q.missing++
	}
	if d := distance(q.x, q.b, q.scale); isUsable(d) {
		// Kept sorted, because sorting is most of the work otherwise.
		at, _ := slices.BinarySearch(q.diffs, d)
		q.diffs = slices.Insert(q.diffs, at, d)
		q.base = append(q.base, q.b)
		q.missing = 0
	}
	q.x, q.b = math.NaN(), math.NaN()
}

// halfWidth is like Comparison.HalfWidth, but always a ratio: differences are
// taken relative to the baseline.
func (q *pairing) halfWidth() float64 {
	s := stat.SignedRank(q.diffs, confidence)
	switch {
	case !s.OK:
		return math.Inf(1)
	case q.scale != bench.Difference:
		return math.Expm1(s.Interval.HalfWidth())
	case s.Interval.HalfWidth() == 0:
		return 0
	default:
		return s.Interval.HalfWidth() / math.Abs(median(q.base))
	}
}
