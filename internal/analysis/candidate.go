package analysis

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

const (
	// reasonsPerMetric limits the reasons for one metric of a cell.
	reasonsPerMetric = 3
	// minNoticeable is the smallest change of a counter that explains anything.
	minNoticeable = 0.10
)

// A counterCandidate is a counter of one cell that might be a reason.
type counterCandidate struct {
	reason Reason
	*effect
}

// compareCounter compares every target with its baseline by one counter.
func (t *table) compareCounter(metric int, targets []*reasonTarget) []*counterCandidate {
	column := t.column(metric)
	out := make([]*counterCandidate, len(targets))
	for i, to := range targets {
		x, base := column[to.cell], column[to.baseline]
		scale := bench.Difference
		if positive(x) && positive(base) {
			scale = bench.Ratio
		}
		c := &counterCandidate{effect: newEffect(to.cell, x, base, scale)}
		c.reason = Reason{
			Metric:    t.run.Header.Metrics[metric],
			Condition: to.condition,
			Cell:      to.cell,
			Baseline:  median(base),
			Value:     median(x),
		}
		out[i] = c
	}
	return out
}

// positive reports whether no value is zero or less.
func positive(x []float64) bool {
	return !slices.ContainsFunc(x, func(v float64) bool { return v <= 0 })
}

// distinct picks the counters of one cell that differ clearly. The counters of one
// place are a family of their own. So the many counters of the whole machine do not
// raise the p-values of the few that count the processes inside. They are tested at 5 %
// at every look, since they are asked for only if there is a verdict, which has already
// been tested at the level of its look.
func distinct(all []*counterCandidate) []*counterCandidate {
	families := make(map[string][]*counterCandidate)
	for _, c := range all {
		families[c.place()] = append(families[c.place()], c)
	}
	for _, family := range families {
		adjustFamily(family)
	}
	return slices.DeleteFunc(slices.Clone(all), func(c *counterCandidate) bool {
		return !(c.cmp.Adjusted < alpha) || c.minLogChange() <= math.Log1p(minNoticeable)
	})
}

// adjustFamily leaves out counters that never differed: no number of blocks could
// make them significant, so they are not tested (Tarone 1990).
func adjustFamily(family []*counterCandidate) {
	p := make([]float64, len(family))
	for i, c := range family {
		p[i] = c.cmp.P
		if !slices.ContainsFunc(c.diffs, func(d float64) bool { return d != 0 }) {
			p[i] = math.NaN()
		}
	}
	for i, adjusted := range stat.Holm(p) {
		c := family[i]
		c.cmp.Adjusted, c.cmp.Alpha, c.cmp.Verdict = adjusted, alpha, Different
		c.reason.Comparison = *c.cmp
	}
}

// place says what a counter counts for: "host", "inside." for the processes of a container, or
// "server." for what a server in one counts by itself. If a trial has parts, such as "disk", the
// name of the part stands before these.
func (c *counterCandidate) place() string {
	name := c.reason.Metric.Name
	for _, word := range []string{inside, server} {
		if strings.HasPrefix(name, word) {
			return word
		}
		if before, _, ok := strings.Cut(name, "."+word); ok {
			return before + "." + word
		}
	}
	place, _, _ := strings.Cut(name, ".")
	return place
}

// What stands before the names of counters that are a container's.
const (
	inside = "inside." // counted by the kernel for its processes
	server = "server." // counted by a server in it
)

// counted names the counted quantity, without its place.
func (c *counterCandidate) counted() string {
	return strings.TrimPrefix(strings.TrimPrefix(c.reason.Metric.Name, c.place()), ".")
}

// ofContainer reports whether a counter is the container's and not the whole machine's.
func (c *counterCandidate) ofContainer() bool { return c.place() != "host" }

// relatesTo reports whether a counter can explain a metric: the counters of one part
// of a trial do not explain another part.
func (c *counterCandidate) relatesTo(m bench.Metric) bool {
	part := strings.TrimSuffix(strings.TrimSuffix(c.place(), inside), server)
	return !strings.HasSuffix(part, ".") || strings.HasPrefix(m.Name, part)
}

// minLogChange is the smallest change that the interval allows, as the logarithm of a
// ratio, so that ratios and differences can be sorted together. A negligible amount
// (grain) is added to both sides of the ratio, so that tiny counts weigh little.
func (c *counterCandidate) minLogChange() float64 {
	if !c.cmp.HasInterval {
		return 0
	}
	low, high := c.cmp.Low, c.cmp.High
	base := math.Abs(c.reason.Baseline)
	if c.scale == bench.Ratio {
		low, high = base*(low-1), base*(high-1)
	}
	if low <= 0 && high >= 0 {
		return 0
	}
	least := low
	if high < 0 {
		least = max(high, -base)
	}
	return math.Abs(math.Log1p(least / (base + unitResolution(c.reason.Metric.Unit))))
}

// unitResolution is the amount below which a quantity is negligible.
func unitResolution(unit string) float64 {
	switch unit {
	case "s":
		return 1e-3
	case "B":
		return 4096
	default:
		return 1
	}
}

// A fit says how well a counter explains a metric.
type fit struct {
	*counterCandidate
	correlation float64
	likely      bool // the counter is higher where the metric is worse, so it may be a cost
	weight      float64
}

// best returns the counters that explain a metric best, out of those that differ
// clearly. A quantity that is counted both inside and on the whole machine is named once.
func (m difference) best(all []*counterCandidate) []fit {
	var fits []fit
	for _, c := range all {
		if c.relatesTo(m.Metric) {
			fits = append(fits, m.fit(c))
		}
	}
	slices.SortStableFunc(fits, func(a, b fit) int {
		if a.likely != b.likely {
			return later(a.likely) - later(b.likely)
		}
		return cmp.Compare(b.weight, a.weight)
	})
	var out []fit
	for _, f := range fits {
		said := slices.ContainsFunc(out, func(o fit) bool { return o.counted() == f.counted() })
		if !said && len(out) < reasonsPerMetric {
			out = append(out, f)
		}
	}
	return out
}

func later(likely bool) int {
	if likely {
		return 0
	}
	return 1
}

func (m difference) fit(c *counterCandidate) fit {
	f := fit{counterCandidate: c, correlation: rankCorrelation(m.effect, c.effect)}
	v := m.cmp.Verdict
	f.likely = v == Different || (c.cmp.sign() > 0) == (v == Worse)
	f.weight = c.minLogChange() * (1 + math.Abs(f.correlation))
	if c.ofContainer() {
		f.weight *= 2
	}
	return f
}

// rankCorrelation is the rank correlation of two effects over the blocks in which both
// have a pair; 0 if there are too few.
func rankCorrelation(a, b *effect) float64 {
	var x, y []float64
	for i, block := range a.blockIndex {
		if j, ok := slices.BinarySearch(b.blockIndex, block); ok {
			x, y = append(x, a.diffs[i]), append(y, b.diffs[j])
		}
	}
	if rho := stat.RankCorrelation(x, y); !math.IsNaN(rho) {
		return rho
	}
	return 0
}
