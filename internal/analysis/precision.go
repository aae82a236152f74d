package analysis

import (
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/stat"
)

// inARow is in how many blocks in a row a run must be precise: once may be luck.
const inARow = 3

// A Precision follows a run while it goes on and says when enough is known:
// when the interval of each primary comparison is as short as the plan asks of
// its metric, in three blocks in a row. It never looks at whether anything differs.
type Precision struct {
	plan    bench.Plan
	all     watch
	metrics map[string]*watch // primary ones, by name
	gone    []bool            // cells that the run has given up
	block   int               // the block that is under way
	open    bool              // it has a trial
	blocks  int               // that are complete
}

// A watch sees to it that some comparisons are precise.
type watch struct {
	share float64 // of the half-width that was asked of each
	pairs []*pairing
	row   int      // of the complete blocks, the last ones after which all were precise
	vain  bool     // precision was asked of all, and none will ever have it
	last  *pairing // was not precise after the last block, and is looked at first; nil = none
}

// knownShare is the share of the half-width that was asked for at which a metric need
// not be measured any more. At all of it, where half of the smallest effect worth knowing
// is asked for, 5 of 100 comparisons of the same with the same would stay open for good;
// two thirds make that one of some thousands.
const knownShare = 2.0 / 3

// A pairing collects one primary comparison.
type pairing struct {
	cell, baseline, metric int
	scale                  bench.Scale
	asked                  float64   // the half-width to reach, as a ratio; 0 = none
	x, b                   float64   // of the block under way; NaN until known
	d                      []float64 // as effect.d, in ascending order
	base                   []float64 // the baseline's values, for differences
	width                  float64   // halfWidth of d; NaN until it is asked for
}

// NewPrecision starts with no samples. A plan that Analyze refuses is never
// precise.
func NewPrecision(plan bench.Plan, metrics []bench.Metric) *Precision {
	p := &Precision{plan: plan, all: watch{share: 1}, metrics: map[string]*watch{}, gone: make([]bool, len(plan.Cells))}
	t, err := newTable(&bench.Run{Header: bench.Header{Plan: plan, Metrics: metrics}})
	if err != nil {
		return p
	}
	for metric, role := range t.role {
		if role == bench.Primary {
			p.follow(t, metric)
		}
	}
	return p
}

// follow adds the comparisons of one metric.
func (p *Precision) follow(t *table, metric int) {
	m := t.run.Header.Metrics[metric]
	own := &watch{share: knownShare}
	p.metrics[m.Name] = own
	for _, g := range t.groups {
		for _, cell := range g.cells {
			if cell == g.baseline {
				continue
			}
			q := &pairing{
				cell: cell, baseline: g.baseline, metric: metric,
				scale: m.Scale, asked: p.plan.Margin(m.Name).Precision, x: math.NaN(), b: math.NaN(), width: math.NaN(),
			}
			own.pairs, p.all.pairs = append(own.pairs, q), append(p.all.pairs, q)
		}
	}
}

// Add takes the next sample, in order of execution, resumed ones included. It
// does not retain it.
func (p *Precision) Add(s bench.Sample) {
	if s.Trial.Warmup() || s.Trial.Cell < 0 || s.Trial.Cell >= len(p.gone) {
		return
	}
	if s.Trial.Block != p.block {
		p.endBlock()
	}
	p.block, p.open = s.Trial.Block, true
	if s.Outcome == bench.Skipped || s.Outcome == bench.Unsupported {
		p.gone[s.Trial.Cell] = true
	}
	if s.Outcome != bench.OK {
		return
	}
	for _, q := range p.all.pairs {
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

// Reached reports whether the plan's precision is reached. It is asked after
// each block, when all of its samples have been added.
func (p *Precision) Reached() bool {
	p.endBlock()
	return p.enough(&p.all)
}

// Known reports whether those of the metrics that are primary need not be measured any
// more: each is known more precisely than was asked, but for those that have no value
// anywhere. It is false where none is known, and does not change within a block.
func (p *Precision) Known(metrics []string) bool {
	found := false
	for _, name := range metrics {
		switch w := p.metrics[name]; {
		case w == nil, w.vain:
		case !p.enough(w):
			return false
		default:
			found = true
		}
	}
	return found
}

// enough reports whether what is watched was precise for long enough.
func (p *Precision) enough(w *watch) bool { return w.row >= inARow && p.blocks >= p.plan.MinBlocks }

// endBlock forms the pairs of the block under way.
func (p *Precision) endBlock() {
	if !p.open {
		return
	}
	p.open = false
	p.blocks++
	for _, q := range p.all.pairs {
		q.endBlock()
	}
	p.look(&p.all)
	for _, w := range p.metrics {
		p.look(w)
	}
}

// look is taken after each block. What was precise stays so when there is nothing to
// compare with any more.
func (p *Precision) look(w *watch) {
	switch {
	case p.precise(w):
		w.row++
	case slices.ContainsFunc(w.pairs, p.awaited):
		w.row = 0
	}
	w.vain = !slices.ContainsFunc(w.pairs, func(q *pairing) bool { return q.asked == 0 || len(q.d) > 0 || !p.hopeless(q) })
}

// precise reports whether every comparison of which precision was asked has it, and
// there is one. One that had it not after the last block most likely has it not now
// either: then it is the only one that costs time.
func (p *Precision) precise(w *watch) bool {
	tooWide := func(q *pairing) bool { return p.awaited(q) && q.halfWidth() > w.share*q.asked }
	if w.last != nil && tooWide(w.last) {
		return false
	}
	w.last = nil
	if i := slices.IndexFunc(w.pairs, tooWide); i >= 0 {
		w.last = w.pairs[i]
		return false
	}
	return slices.ContainsFunc(w.pairs, p.awaited)
}

// awaited reports whether the run goes on until a comparison is precise.
func (p *Precision) awaited(q *pairing) bool { return q.asked > 0 && !p.hopeless(q) }

// hopeless reports whether a comparison will never be precise, so that nobody
// should wait for it: a cell that the run has given up, or one that has never
// had a value in all the blocks that a plan has at least.
func (p *Precision) hopeless(q *pairing) bool {
	return p.gone[q.cell] || p.gone[q.baseline] || len(q.d) == 0 && p.blocks >= p.plan.MinBlocks
}

func (q *pairing) endBlock() {
	if d := distance(q.x, q.b, q.scale); usable(d) {
		// Kept sorted, because sorting is most of the work otherwise.
		at, _ := slices.BinarySearch(q.d, d)
		q.d = slices.Insert(q.d, at, d)
		q.base, q.width = append(q.base, q.b), math.NaN()
	}
	q.x, q.b = math.NaN(), math.NaN()
}

// halfWidth is that of Comparison, but always as a ratio: differences are
// taken relative to the baseline.
func (q *pairing) halfWidth() float64 {
	if math.IsNaN(q.width) {
		q.width = q.measureWidth()
	}
	return q.width
}

func (q *pairing) measureWidth() float64 {
	s := stat.SignedRank(q.d, confidence)
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
