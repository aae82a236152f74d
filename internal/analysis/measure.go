package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

// A measure is one metric while it is being analysed: the result, and the
// pairs behind it.
type measure struct {
	result MetricResult
	tables []*compared // parallel to result.Conditions; then the summary's, if there is one
	blocks int
	column [][]float64 // by cell and block
	family int         // comparisons that are adjusted together with these
	look   look
	begun  bool // the run is under way, and has not ended
	// stretch is the column of the uninterrupted stretches of trials that take turns; nil without any.
	stretch      [][]float64
	stretchTests int
}

// A compared is the pairs behind one ConditionResult.
type compared struct {
	group
	effects []*effect // of the compared cells, in order
	noise   *effect   // nil without a control
	scale   float64   // median of the baseline: shares of a difference are shares of it
}

// measure compares all cells by each primary and detail metric.
func (t *table) measure(opt Options) []*measure {
	var order []int
	for _, role := range []bench.Role{bench.Primary, bench.Detail} {
		for i, r := range t.role {
			if r == role {
				order = append(order, i)
			}
		}
	}
	out, stretchTests := make([]*measure, len(order)), t.stretchTests()
	parallel(len(order), func(i int) { out[i] = t.measureOne(order[i], opt, stretchTests) })
	for _, m := range out {
		m.begun = opt.Running
		m.setSmallest()
	}
	return out
}

// measureOne compares all cells by one metric.
func (t *table) measureOne(metric int, opt Options, stretchTests int) *measure {
	m := &measure{column: t.column(metric), blocks: len(t.blocks), look: t.look}
	m.result.Metric = t.run.Header.Metrics[metric]
	m.stretch, m.stretchTests = t.stretches(m.result.Metric.Name), stretchTests
	m.result.Metric.Role = t.role[metric]
	m.result.Asked = cmp.Or(opt.Smallest, t.run.Header.Plan.Margin(m.result.Metric.Name).Smallest)
	for _, g := range t.groups {
		c := m.compare(g)
		m.tables = append(m.tables, c)
		m.result.Conditions = append(m.result.Conditions, t.conditionResult(m, c))
	}
	if len(t.groups) > 1 {
		m.summarize(t)
	}
	return m
}

// compare pairs every cell of a group with its baseline.
func (m *measure) compare(g group) *compared {
	base, scale := m.column[g.baseline], m.result.Metric.Scale
	c := &compared{group: g, scale: math.Abs(median(base))}
	for _, cell := range g.cells {
		if cell != g.baseline {
			e := newEffect(cell, m.column[cell], base, scale)
			e.shift(m.column[cell], base)
			c.effects = append(c.effects, m.unlessInterrupted(e, g.baseline))
		}
	}
	if g.control >= 0 {
		c.noise = m.unlessInterrupted(newEffect(g.control, m.column[g.control], base, scale), g.baseline)
		if c.hasInterrupted() && !c.noise.cmp.Interrupted { // what is compared by stretches has their noise
			c.noise = newEffect(g.control, m.stretch[g.control], m.stretch[g.baseline], scale)
		}
	}
	return c
}

// hasInterrupted reports whether the comparison of some cell is that of stretches.
func (c *compared) hasInterrupted() bool {
	return slices.ContainsFunc(c.effects, func(e *effect) bool { return e.cmp.Interrupted })
}

// conditionResult makes the table of a group.
func (t *table) conditionResult(m *measure, c *compared) ConditionResult {
	r := ConditionResult{
		Condition: c.condition, Baseline: c.baseline, Control: c.control,
		Levels: conditionLevels(&t.run.Header.Plan, &t.cells[c.baseline]),
	}
	if c.noise != nil {
		r.Noise = c.noise.cmp
	}
	if t.anyRemote() {
		r.Spread = spread(m.column[c.baseline], m.result.Metric.Scale)
	}
	for _, cell := range c.cells {
		v := CellResult{Cell: cell, Name: t.cells[cell].Name, Failed: t.failed[cell], Unsupported: t.unsupported[cell]}
		v.N, v.Value, v.Low, v.High = location(m.column[cell])
		if e := c.of(cell); e != nil {
			v.Comparison = e.cmp
		}
		r.Cells = append(r.Cells, v)
	}
	return r
}

// anyRemote reports whether some engine of the run is on another machine.
func (t *table) anyRemote() bool {
	return slices.ContainsFunc(t.run.Header.Engines, func(e bench.EngineInfo) bool { return e.Away != nil })
}

// spread is half of the distance between the quartiles; 0 without values.
func spread(x []float64, scale bench.Scale) float64 {
	if x = numbers(x); len(x) == 0 {
		return 0
	}
	low, high := stat.Quantile(x, 0.25), stat.Quantile(x, 0.75)
	switch {
	case scale == bench.Difference:
		return (high - low) / 2
	case low <= 0:
		return 0
	default:
		return math.Sqrt(high/low) - 1
	}
}

// of returns the effect of a cell, nil for the baseline.
func (c *compared) of(cell int) *effect {
	i := slices.IndexFunc(c.effects, func(e *effect) bool { return e.cell == cell })
	if i < 0 {
		return nil
	}
	return c.effects[i]
}

// all returns the effects and the noise, if there is a control.
func (c *compared) all() []*effect {
	if c.noise == nil {
		return c.effects
	}
	return append(slices.Clone(c.effects), c.noise)
}

// location returns the median of the values and the bounds of it.
func location(x []float64) (n int, value, low, high float64) {
	x = numbers(x)
	if len(x) == 0 {
		return 0, math.NaN(), math.NaN(), math.NaN()
	}
	value = stat.Median(x)
	interval, ok := stat.MedianInterval(x, confidence)
	if !ok {
		return len(x), value, math.NaN(), math.NaN()
	}
	return len(x), value, interval.Low, interval.High
}

// median returns the median of the values that are numbers, NaN without any.
func median(x []float64) float64 {
	if x = numbers(x); len(x) == 0 {
		return math.NaN()
	}
	return stat.Median(x)
}

// summarize compares over all conditions. Cells of different conditions are
// the same thing if they have the same name.
func (m *measure) summarize(t *table) {
	first := m.tables[0]
	sum := &compared{group: group{baseline: first.baseline, control: -1, cells: []int{first.baseline}}}
	for _, c := range m.tables {
		sum.scale += c.scale / float64(len(m.tables))
	}
	done := map[string]bool{t.cells[first.baseline].Name: true}
	for _, c := range m.tables {
		for _, e := range c.effects {
			name := t.cells[e.cell].Name
			if done[name] {
				continue
			}
			done[name] = true
			if mean := meanEffect(m.sameName(t, name), e.cell, e.scale); mean != nil {
				sum.cells = append(sum.cells, e.cell)
				sum.effects = append(sum.effects, mean)
			}
		}
	}
	m.summarizeNoise(sum)
	m.tables = append(m.tables, sum)
	r := t.conditionResult(m, sum)
	for i := range r.Cells {
		r.Cells[i] = CellResult{
			Cell: r.Cells[i].Cell, Name: r.Cells[i].Name, Comparison: r.Cells[i].Comparison,
			Value: math.NaN(), Low: math.NaN(), High: math.NaN(),
		}
	}
	r.Levels = nil
	m.result.Summary = &r
}

// summarizeNoise does for the controls what summarize does for the cells.
func (m *measure) summarizeNoise(sum *compared) {
	var noise []*effect
	for _, c := range m.tables {
		if c.noise != nil {
			noise = append(noise, c.noise)
		}
	}
	if len(noise) == len(m.tables) {
		sum.control = noise[0].cell
		sum.noise = meanEffect(noise, sum.control, noise[0].scale)
	}
}

// sameName returns the effects of the cells with a name, one per condition.
func (m *measure) sameName(t *table, name string) []*effect {
	var out []*effect
	for _, c := range m.tables[:len(m.result.Conditions)] {
		for _, e := range c.effects {
			if t.cells[e.cell].Name == name {
				out = append(out, e)
			}
		}
	}
	return out
}

// meanEffect returns the effect of the per-block means, over the blocks in which
// every condition has a pair. Other blocks would compare conditions, not cells. It is
// nil for fewer than two conditions.
func meanEffect(parts []*effect, cell int, scale bench.Scale) *effect {
	if len(parts) < 2 {
		return nil
	}
	sum, count := make(map[int]float64), make(map[int]int)
	for _, p := range parts {
		for i, block := range p.blockIndex {
			sum[block] += p.diffs[i]
			count[block]++
		}
	}
	mean := &effect{cell: cell, scale: scale}
	for _, block := range parts[0].blockIndex { // ascending
		if count[block] == len(parts) {
			mean.blockIndex = append(mean.blockIndex, block)
			mean.diffs = append(mean.diffs, sum[block]/float64(len(parts)))
		}
	}
	mean.test()
	return mean
}

// results returns the tables to show, parallel to m.tables.
func (m *measure) results() []*ConditionResult {
	var out []*ConditionResult
	for i := range m.result.Conditions {
		out = append(out, &m.result.Conditions[i])
	}
	if m.result.Summary != nil {
		out = append(out, m.result.Summary)
	}
	return out
}

// setSmallest sets the smallest effect worth knowing: the one asked for, or else
// the larger of 1 % and the noise.
func (m *measure) setSmallest() {
	for i, r := range m.results() {
		unit := m.reference(m.tables[i])
		if m.result.Asked > 0 {
			r.Smallest = m.result.Asked * unit
			continue
		}
		r.Smallest = smallest * unit
		if r.Noise != nil && r.Noise.HasInterval {
			r.Smallest = max(r.Smallest, r.Noise.HalfWidth())
			r.Noisy = r.Smallest > noisy*unit
		}
	}
}

// reference is the quantity that a share of an effect refers to: 1 for ratios, the
// baseline's median for differences.
func (m *measure) reference(c *compared) float64 {
	switch {
	case m.result.Metric.Scale != bench.Difference:
		return 1
	case math.IsNaN(c.scale):
		return 0
	default:
		return c.scale
	}
}

// adjust applies Holm's method to four families: the comparisons of the
// primary metrics and of the details, and the controls of both.
func adjust(work []*measure, at look) {
	for _, role := range []bench.Role{bench.Primary, bench.Detail} {
		var cells, controls []*Comparison
		for _, m := range work {
			if m.result.Metric.Role != role {
				continue
			}
			for _, c := range m.tables {
				for _, e := range c.effects {
					cells = append(cells, e.cmp)
				}
				if c.noise != nil {
					controls = append(controls, c.noise.cmp)
				}
			}
		}
		holm(cells, at.alpha())
		holm(controls, at.alpha())
		for _, m := range work {
			if m.result.Metric.Role == role {
				m.family = tests(cells)
			}
		}
	}
}

// tests counts the comparisons of a family that have pairs.
func tests(family []*Comparison) int {
	n := 0
	for _, c := range family {
		if c.Pairs > 0 {
			n++
		}
	}
	return n
}

// holm adjusts one family, which is tested at the level alpha.
func holm(family []*Comparison, alpha float64) {
	p := make([]float64, len(family))
	for i, c := range family {
		p[i] = c.P
		if c.Interrupted {
			p[i] = min(1, stretchWeight*c.P)
		}
	}
	for i, adjusted := range stat.Holm(p) {
		family[i].Adjusted, family[i].Alpha = adjusted, alpha
	}
}

// decide gives the verdicts of one metric.
func (m *measure) decide() {
	worst := 0.0
	for i, r := range m.results() {
		// The control is judged by the limit for cells; its own half-width does
		// not widen that limit.
		if n := r.Noise; n != nil {
			n.Verdict = m.tables[i].noise.decide(bench.Neither, m.noiseLimit(m.tables[i], r), m.look)
			if n.Verdict == Different {
				control := m.tables[i].noise
				r.Unreliable, r.Doubtful = true, fromDistance(beyondControl*control.furthest(), control.scale)
			}
		}
		worst = max(worst, r.Doubtful)
		if r == m.result.Summary {
			r.Unreliable, r.Doubtful = worst > 0, worst // a mean is no better than its parts
		}
		for _, e := range m.tables[i].effects {
			m.decideOne(e, m.tables[i], r)
		}
	}
}

// beyondControl is how many times as large as the control's difference an effect must be, to be trusted where the
// control differs. The control shows once how far something moves a cell that should not differ; of a normal variable
// of which one value is known, with a mean of 0, 95 % of the others are less than this many times as far away: the
// quantile of Student's t with one degree of freedom.
const beyondControl = 12.706

// decideOne gives one verdict.
func (m *measure) decideOne(e *effect, c *compared, r *ConditionResult) {
	e.cmp.Verdict = e.decide(m.result.Metric.Better, r.Smallest, m.look).unless(r.Noisy)
	e.cmp.Detectable = e.detectable(r.Smallest, m.family, m.look)
	if e.cmp.Verdict == Unclear {
		e.cmp.Blocks, e.cmp.Extended = m.blocksToSettle(e, c, r, m.look), m.blocksToSettle(e, c, r, m.look+1)
	}
	// An effect that is far from no difference stands, though its size is not known exactly. "Same" is about the size.
	stands := e.cmp.Verdict != Same && e.nearest() > toDistance(r.Doubtful, e.scale)
	if r.Unreliable && !stands && e.cmp.Verdict != NotCompared {
		e.cmp.Verdict, e.cmp.Blocks, e.cmp.Extended = Unreliable, 0, 0
	}
	if m.begun {
		e.cmp.Verdict = e.cmp.Verdict.withoutClaim()
	}
}

// blocksToSettle estimates how many blocks in total would settle an unclear comparison at a look, as
// different or as the same; 0 = unknown. On a noisy machine, "same" also needs a more
// precise estimate of the noise.
func (m *measure) blocksToSettle(e *effect, c *compared, r *ConditionResult, at look) int {
	apart := e.blocksToSeparate(m.family, m.blocks, at)
	if !r.Noisy {
		return minNonZero(apart, e.blocksToEquivalence(r.Smallest, m.blocks, at))
	}
	limit := noisy * m.reference(c)
	alike, quiet := e.blocksToEquivalence(limit, m.blocks, at), c.noise.blocksToHalfWidth(limit, m.blocks)
	if alike == 0 || quiet == 0 {
		return apart
	}
	return minNonZero(apart, max(alike, quiet))
}

// minNonZero is the smaller of a and b; 0 means unknown.
func minNonZero(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// noiseLimit is the largest difference of a control that is acceptable.
func (m *measure) noiseLimit(c *compared, r *ConditionResult) float64 {
	return min(r.Smallest, smallest*m.reference(c))
}
