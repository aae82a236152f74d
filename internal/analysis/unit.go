package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A Unit is what a value of a group is. Nothing smaller is counted as if it were independent.
type Unit string

// The units.
const (
	UnitRun   Unit = "run"   // the median of its trials
	UnitHost  Unit = "host"  // the median of its runs
	UnitBlock Unit = "block" // of one run each, paired with the block that another host measured at the same time
)

// findUnit decides what the unit of the comparison is.
func (c *contrastBuilder) findUnit() Unit {
	if len(c.singleHosts()) < len(c.Groups) {
		return UnitHost
	}
	if len(c.tables) == len(c.Groups) && areJoint(c.tables) {
		return UnitBlock
	}
	return UnitRun
}

// areJoint reports whether runs are those of one measurement on several hosts, one of each.
func areJoint(tables []*table) bool {
	var hosts []string
	for _, t := range tables {
		j, first := t.run.Header.Joint, tables[0].run.Header.Joint
		if j == nil || first == nil || j.ID != first.ID || slices.Contains(hosts, j.Host) {
			return false
		}
		hosts = append(hosts, j.Host)
	}
	return true
}

// machines numbers the machines on which runs were measured. Runs of one have the same number.
func machines(tables []*table) map[*table]int {
	all := map[*table]int{}
	for i, t := range tables {
		all[t] = i
		for _, before := range tables[:i] {
			same := all[before]
			if same == i || !sameMachine(&t.run.Header.Host, &before.run.Header.Host) {
				continue
			}
			for other, n := range all { // a machine of two names and a boot of each: one run can join others
				if n == same {
					all[other] = i
				}
			}
		}
	}
	return all
}

// sameMachine reports whether two hosts are one machine, whatever it was called. A container has a name of its own,
// often another one each time, and no machine ID; but the machine has one boot for all of them.
func sameMachine(a, b *bench.HostFacts) bool {
	if a.MachineID != "" && a.MachineID == b.MachineID || a.BootID != "" && a.BootID == b.BootID {
		return true
	}
	return HostName(a) == HostName(b)
}

// units collects the values of one group: one for each run or, if byHost, for each host.
type units struct {
	byHost  bool
	machine map[*table]int
	hosts   []int
	values  [][]float64
}

// add adds the value of a run.
func (u *units) add(t *table, v float64) {
	if !isUsable(v) {
		return
	}
	host := u.machine[t]
	i := slices.Index(u.hosts, host)
	if i < 0 || !u.byHost {
		i = len(u.hosts)
		u.hosts, u.values = append(u.hosts, host), append(u.values, nil)
	}
	u.values[i] = append(u.values[i], v)
}

// each returns one value for each unit: the median of its runs.
func (u *units) each() (all []float64) {
	for _, values := range u.values {
		all = append(all, median(values))
	}
	return all
}

// together is how far the beginnings of two blocks may be apart that count as measured at the same
// time. They begin within a fraction of a second, except after an interruption.
const together = 10 * time.Second

// blockSide collects one run's values of one cell, by block of the first run: of those blocks that
// both runs began together.
func (c *contrastBuilder) blockSide(
	t *table, columns map[*table][][]float64, k key, baseline string, scale bench.Scale,
) Side {
	var s Side
	blocks := c.pairedBlocks(t)
	s.blocks = slices.Repeat([]float64{math.NaN()}, len(blocks))
	s.InRun.blocks = slices.Clone(s.blocks)
	cell, _, ok := t.find(k)
	base, _, hasBase := t.find(key{k.condition, baseline})
	for i, at := range blocks {
		if at < 0 || !ok || columns[t] == nil {
			continue
		}
		v := columns[t][cell][at]
		s.blocks[i] = v
		if hasBase && baseline != "" {
			s.InRun.blocks[i] = fromDistance(distance(v, columns[t][base][at], scale), scale)
		}
	}
	s.Each, s.InRun.Each = numbers(s.blocks), numbers(s.InRun.blocks)
	s.estimate()
	s.InRun.estimate()
	return s
}

// pairedBlocks returns, for each block of the first run, the index of the block of a run that began
// together with it; -1 = none.
func (c *contrastBuilder) pairedBlocks(t *table) []int {
	if all, ok := c.paired[t]; ok {
		return all
	}
	first := c.tables[0]
	here, there := first.beginnings(), t.beginnings()
	all := make([]int, len(first.blocks))
	for i, block := range first.blocks {
		at, ok := slices.BinarySearch(t.blocks, block)
		if !ok || here[block].Sub(there[block]).Abs() > together {
			at = -1
		}
		all[i] = at
	}
	if c.paired == nil {
		c.paired = map[*table][]int{}
	}
	c.paired[t] = all
	return all
}

// beginnings returns when the first trial of each block began.
func (t *table) beginnings() map[int]time.Time {
	out := map[int]time.Time{}
	for i := range t.run.Samples {
		s := &t.run.Samples[i]
		if at, ok := out[s.Trial.Block]; !ok || s.Began.Before(at) {
			out[s.Trial.Block] = s.Began
		}
	}
	return out
}

// compareBlocks compares the values with those of the first group in the same blocks.
func (v *Values) compareBlocks(first *Values, scale bench.Scale) {
	if e := newEffect(0, v.blocks, first.blocks, scale); len(e.diffs) > 0 {
		v.Comparison, v.diffs = e.cmp, e.diffs
	}
}

// warnChanging warns of differences that changed while they were measured: pairing cancels what comes
// and goes for all hosts, but not what comes and goes for one of them.
func (c *contrastBuilder) warnChanging() {
	var all []*Values
	var titles []string
	c.eachComparison(bench.Primary, func(m *ContrastMetric, r *ContrastRow, _, v *Values) {
		if len(v.diffs) >= shapeValues {
			all = append(all, v)
			titles = append(titles, m.Metric.Title+" of "+CellName(&bench.Cell{Name: r.Cell, Condition: r.Condition}))
		}
	})
	changes := func(test func(x []float64) (size, p float64), least float64) {
		var p, size []float64
		for _, v := range all {
			s, one := test(v.diffs)
			p, size = append(p, one), append(size, s)
		}
		for i, adjusted := range stat.Holm(p) {
			if adjusted < shapeAlpha && size[i] >= least && !slices.Contains(c.changing, titles[i]) {
				c.changing = append(c.changing, titles[i])
			}
		}
	}
	changes(stat.Trend, math.Inf(-1))
	changes(func(x []float64) (float64, float64) { return stat.Autocorrelation(x, 1) }, maxAutocorrelation)
	if len(c.changing) > 0 {
		c.add(CodeDrift, "the difference between the hosts changed while it was measured: "+strings.Join(c.changing, ", "),
			"measure at other times, too: the difference may be another one then", "")
	}
}

// carries says what the comparison can show, and what it cannot.
func (c *contrastBuilder) carries() string {
	const machines = "this tells how these machines differed while they were measured, and nothing about what they have " +
		"in common with others, such as an operating system"
	apart := "the runs were not interleaved: the host, the day and the neighbours are confounded with the difference"
	switch {
	case c.Unit == UnitBlock:
		return "the hosts measured each block at the same time, so what comes and goes for all of them cancels out; " +
			machines
	case c.Unit == UnitHost:
		tells := "so this tells groups of machines apart"
		if alone := c.singleHosts(); alone != nil {
			tells = "and one machine is all there is of " + strings.Join(alone, " and of ") + ": this tells how it differs " +
				"from the others, and nothing about its kind, such as its operating system"
		}
		return "each value is one host, " + tells + "; what else differs between the groups is confounded with the difference"
	case c.differInHost():
		return apart + "; " + machines
	default:
		return apart
	}
}

// singleHosts names the groups whose runs are all of one host.
func (c *contrastBuilder) singleHosts() (names []string) {
	for i, members := range c.members {
		first := c.machine[members[0]]
		if !slices.ContainsFunc(members, func(t *table) bool { return c.machine[t] != first }) {
			names = append(names, c.Groups[i].Name)
		}
	}
	return names
}

// areSystems reports whether every group is called by the system of its runs.
func (c *contrastBuilder) areSystems() bool {
	for i, members := range c.members {
		name := c.Groups[i].Name
		if name == "" || slices.ContainsFunc(members, func(t *table) bool { return t.run.Header.Host.OS != name }) {
			return false
		}
	}
	return true
}

// differInHost reports whether every group is another host.
func (c *contrastBuilder) differInHost() bool {
	hosts := map[int]bool{}
	for _, members := range c.members {
		hosts[c.machine[members[0]]] = true
	}
	return len(hosts) == len(c.Groups)
}

// warnPairs warns if the pairs of blocks are too few for any verdict, or for some, and says how many would be
// enough.
func (c *contrastBuilder) warnPairs() {
	family, fewest, most := 0, math.MaxInt, 0
	c.eachComparison(bench.Primary, func(_ *ContrastMetric, _ *ContrastRow, _, v *Values) {
		family++
		fewest, most = min(fewest, v.Comparison.Pairs), max(most, v.Comparison.Pairs)
	})
	need := stat.MinPairs(confidence, family)
	switch {
	case family == 0 || fewest >= need:
	case most >= need:
		c.add(CodeFewPairs, fmt.Sprintf("some comparisons have too few blocks with a value of both hosts: the fewest %d, "+
			"and with %s a difference takes %d", fewest, unit.FormatCount(family, "comparison"), need),
			"see why values are missing: tare show RUN", "")
	default:
		c.Trust.Needed = need
		c.add(CodeFewRuns, fmt.Sprintf("with %s that all hosts measured at the same time and %s, no difference can be "+
			"significant; %d blocks would be enough",
			unit.FormatCount(most, "block"), unit.FormatCount(family, "comparison"), need), c.moreTogether(need), "")
	}
}

// moreTogether says how to measure so many blocks on all hosts. A budget that ended the runs would do so again.
func (c *contrastBuilder) moreTogether(blocks int) string {
	var block time.Duration
	for _, t := range c.tables {
		if end := t.run.End; end != nil && end.Reason == bench.StopBudget {
			block = max(block, BlockTime(t.run))
		}
	}
	if block == 0 {
		return fmt.Sprintf("measure again with --blocks %d or more", blocks)
	}
	return fmt.Sprintf("measure again with --blocks %d --budget %s, or more", blocks,
		BudgetFor(blocks+c.tables[0].run.Header.Plan.Warmup, block))
}
