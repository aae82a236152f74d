package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

// ErrNothingInCommon is wrapped by Compare's error when the runs have no cell
// and metric that could be compared.
var ErrNothingInCommon = errors.New("the runs have nothing in common")

// ErrOneGroup is wrapped by Compare's error when all runs are in the same group.
var ErrOneGroup = errors.New("there is no other group to compare with")

// CompareOptions change how runs are compared. The zero value is right.
type CompareOptions struct {
	// Smallest is as in Options.
	Smallest float64
	// Group names the group of a run; nil = its host, or the run itself if there
	// are two runs or all are of one host.
	Group func(h *bench.Header) string
	// Running says which runs are under way, and not interrupted; nil = none is.
	Running func(h *bench.Header) bool
}

// A Contrast compares groups of runs with the first group. The runs were not
// interleaved, and each run has an effect of its own on all of its trials. So the
// unit is the run, or the host if a group has several hosts, and the comparison is
// unpaired: Hodges–Lehmann shifts with Mann–Whitney intervals. With one unit each
// there is a shift and nothing else. Only runs of hosts that were measured together
// are compared block by block.
type Contrast struct {
	Unit     Unit
	Groups   []Group
	Metrics  []ContrastMetric
	Differ   []Residue // facts and options that differ between the runs
	Warnings []bench.Warning
	Trust    Trust
}

// A Group is runs that belong together, such as those of one host.
type Group struct {
	Name string
	Runs []Member
}

// A Member is one run of a Group.
type Member struct {
	Header      *bench.Header
	End         *bench.End    // nil if the run is incomplete
	Blocks      int           // as in Result
	Trials      Trials        // by outcome
	Wall        time.Duration // as in Result
	Resumptions int
	Running     bool // as in Result
	Looks       int  // as in Result
}

// A ContrastMetric is what the groups say about one metric.
type ContrastMetric struct {
	Metric bench.Metric
	Asked  float64       // as in MetricResult, by the first run's plan
	Rows   []ContrastRow // in the order of the first run's plan
}

// A ContrastRow is one cell under one condition.
type ContrastRow struct {
	Condition, Cell string
	// Baseline is the cell that InRun compares with in each run; empty for the
	// baseline itself.
	Baseline string
	Smallest float64 // the smallest effect worth knowing, as in ConditionResult
	Noisy    bool    // as in ConditionResult
	Sides    []Side  // parallel to Contrast.Groups
}

// A Side is one group's values: one for each unit.
type Side struct {
	Values
	// InRun compares the cell with the Baseline of the same run, for each run and
	// paired by block: a ratio, or a difference in the metric's unit. Effects that
	// a run has on all of its cells alike cancel out.
	InRun Values
}

// Values are those of a group's runs.
type Values struct {
	N          int         // units
	Value      float64     // median; NaN without values
	Low, High  float64     // bounds of the median; NaN with too few values
	Comparison *Comparison // with the first group; nil for the first group, and if nothing can be compared
	// Each is the value of every unit that has one, in the order of Group.Runs.
	Each []float64

	blocks []float64 // the values by block of the first run, if blocks are paired; NaN = none
	diffs  []float64 // of the pairs of blocks, in their order
}

// key identifies a cell across runs: cells of different runs with one key are compared.
type key struct{ condition, cell string }

// Compare compares separate runs and does not change them. It fails with
// ErrNothingInCommon if they share no cell and metric, and with ErrOneGroup.
func Compare(runs []*bench.Run, opt CompareOptions) (*Contrast, error) {
	if len(runs) < 2 {
		return nil, errors.New("a comparison needs two or more runs")
	}
	c := &contrastBuilder{opt: opt, Contrast: &Contrast{}}
	for _, run := range runs {
		t, err := newTable(run)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", run.Header.ID, err)
		}
		c.tables = append(c.tables, t)
	}
	c.machine = machines(c.tables)
	c.group()
	c.Unit = c.findUnit()
	if len(c.Groups) < 2 {
		return nil, fmt.Errorf("all %d runs are in group %q: %w", len(runs), c.Groups[0].Name, ErrOneGroup)
	}
	c.compare()
	if len(c.Metrics) == 0 {
		return nil, c.nothingInCommon()
	}
	c.adjustAndDecide()
	c.warn()
	c.Trust.Level = High
	c.Trust.lower(doubtsAcross(c.Unit, c.Unit != UnitHost && c.areSystems()), c.Warnings, func(*doubt) {})
	return c.Contrast, nil
}

// A contrastBuilder is a Contrast while it is made.
type contrastBuilder struct {
	*Contrast
	opt     CompareOptions
	tables  []*table
	members [][]*table // parallel to Groups
	groupOf []string   // the group of each table
	machine map[*table]int

	paired   map[*table][]int // see pairedBlocks
	changing []string         // see warnChanging
}

// group sorts the runs into groups, in order of appearance.
func (c *contrastBuilder) group() {
	name := c.opt.Group
	if name == nil {
		name = defaultGroup(c.tables)
	}
	at := make(map[string]int)
	for _, t := range c.tables {
		h := &t.run.Header
		g := name(h)
		n, ok := at[g]
		if !ok {
			n = len(c.Groups)
			at[g] = n
			c.Groups = append(c.Groups, Group{Name: g})
			c.members = append(c.members, nil)
		}
		c.Groups[n].Runs = append(c.Groups[n].Runs, Member{
			Header: h, End: t.run.End, Blocks: t.completeBlocks(), Trials: t.trials, Wall: wall(t.run),
			Resumptions: len(t.run.Resumptions), Running: c.running(t), Looks: int(t.look),
		})
		c.members[n], c.groupOf = append(c.members[n], t), append(c.groupOf, g)
	}
}

// running reports whether a run is under way.
func (c *contrastBuilder) running(t *table) bool {
	return t.run.End == nil && c.opt.Running != nil && c.opt.Running(&t.run.Header)
}

// defaultGroup groups by host, unless there are two runs or only one host. Runs that were measured
// together are told apart by what their hosts were called.
func defaultGroup(tables []*table) func(h *bench.Header) string {
	if areJoint(tables) {
		return func(h *bench.Header) string { return h.Joint.Host }
	}
	hosts := make(map[string]bool)
	for _, t := range tables {
		hosts[HostName(&t.run.Header.Host)] = true
	}
	if len(tables) == 2 || len(hosts) == 1 {
		return func(h *bench.Header) string { return h.ID }
	}
	return func(h *bench.Header) string { return HostName(&h.Host) }
}

// compare makes the rows: each primary or detail metric and each cell of the first
// run, if at least one other group has values too.
func (c *contrastBuilder) compare() {
	first := c.tables[0]
	for _, role := range []bench.Role{bench.Primary, bench.Detail} {
		for i, m := range first.run.Header.Metrics {
			if first.role[i] != role {
				continue
			}
			m.Role = role
			asked := cmp.Or(c.opt.Smallest, first.run.Header.Plan.Margin(m.Name).Smallest)
			if rows := c.rows(m, asked); len(rows) > 0 {
				c.Metrics = append(c.Metrics, ContrastMetric{Metric: m, Asked: asked, Rows: rows})
			}
		}
	}
}

// rows compares every cell by one metric.
func (c *contrastBuilder) rows(m bench.Metric, asked float64) []ContrastRow {
	columns := make(map[*table][][]float64)
	for _, t := range c.tables {
		if i := t.metric(m); i >= 0 {
			columns[t] = t.column(i)
		}
	}
	var rows []ContrastRow
	for _, g := range c.tables[0].groups {
		for _, cell := range g.cells {
			k := key{g.condition, c.tables[0].cells[cell].Name}
			row := ContrastRow{Condition: k.condition, Cell: k.cell}
			if cell != g.baseline {
				row.Baseline = c.tables[0].cells[g.baseline].Name
			}
			row.Smallest, row.Noisy = c.smallest(m, asked, columns, k)
			for _, members := range c.members {
				if c.Unit == UnitBlock {
					row.Sides = append(row.Sides, c.blockSide(members[0], columns, k, row.Baseline, m.Scale))
				} else {
					row.Sides = append(row.Sides, c.side(members, columns, k, row.Baseline, m.Scale))
				}
			}
			if row.compare(m.Scale) {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// metric returns the index of the metric with the same definition; -1 = none.
func (t *table) metric(m bench.Metric) int {
	return slices.IndexFunc(t.run.Header.Metrics, func(o bench.Metric) bool {
		return o.Name == m.Name && o.Unit == m.Unit && o.Scale == m.Scale && o.Better == m.Better
	})
}

// find returns the cell of a key, and the group that it is in.
func (t *table) find(k key) (cell int, g group, ok bool) {
	for _, g := range t.groups {
		for _, cell := range g.cells {
			if g.condition == k.condition && t.cells[cell].Name == k.cell {
				return cell, g, true
			}
		}
	}
	return 0, group{}, false
}

// side collects one group's values of one cell.
func (c *contrastBuilder) side(
	members []*table, columns map[*table][][]float64, k key, baseline string, scale bench.Scale,
) Side {
	var s Side
	values := units{byHost: c.Unit == UnitHost, machine: c.machine}
	inRun := values
	for _, t := range members {
		cell, _, ok := t.find(k)
		if !ok || columns[t] == nil {
			continue
		}
		values.add(t, median(columns[t][cell]))
		if base, _, ok := t.find(key{k.condition, baseline}); ok && baseline != "" {
			inRun.add(t, newEffect(cell, columns[t][cell], columns[t][base], scale).cmp.Estimate)
		}
	}
	s.Each, s.InRun.Each = values.each(), inRun.each()
	s.estimate()
	s.InRun.estimate()
	return s
}

// estimate finds the middle of the values.
func (v *Values) estimate() { v.N, v.Value, v.Low, v.High = location(v.Each) }

// smallest returns the smallest effect worth knowing: the one asked for, or else
// the larger of 1 % and the largest noise within a run. tooNoisy says that this
// noise is too large to call anything the same.
func (c *contrastBuilder) smallest(
	m bench.Metric, asked float64, columns map[*table][][]float64, k key,
) (delta float64, tooNoisy bool) {
	noise, level := 0.0, math.NaN()
	for _, t := range c.tables {
		cell, g, ok := t.find(k)
		if !ok || columns[t] == nil {
			continue
		}
		if math.IsNaN(level) {
			level = math.Abs(median(columns[t][cell]))
		}
		if asked == 0 && g.control >= 0 {
			if n := newEffect(g.control, columns[t][g.control], columns[t][g.baseline], m.Scale).cmp; n.HasInterval {
				noise = max(noise, n.HalfWidth())
			}
		}
	}
	switch {
	case m.Scale != bench.Difference:
		level = 1
	case math.IsNaN(level):
		level = 0
	}
	if asked > 0 {
		return asked * level, false
	}
	return max(smallest*level, noise), noise > noisy*level
}

// compare tests every side against the first, and reports whether there is
// anything to show.
func (r *ContrastRow) compare(scale bench.Scale) bool {
	shown := false
	first := &r.Sides[0]
	for i := range r.Sides[1:] {
		s := &r.Sides[i+1]
		shown = shown || s.N > 0 && first.N > 0
		s.compareWith(&first.Values, scale)
		s.InRun.compareWith(&first.InRun, scale)
	}
	return shown
}

// compareWith compares the values with those of the first group.
func (v *Values) compareWith(first *Values, scale bench.Scale) {
	if first.blocks != nil {
		v.compareBlocks(first, scale)
		return
	}
	base, ok := distances(first.Each, scale)
	if x, fine := distances(v.Each, scale); ok && fine {
		v.Comparison = shift(x, base, scale)
	}
}

// shift compares two sets of distances; nil if one is empty.
func shift(x, base []float64, scale bench.Scale) *Comparison {
	if len(x) == 0 || len(base) == 0 {
		return nil
	}
	nan := math.NaN()
	c := &Comparison{Scale: scale, Low: nan, High: nan, Adjusted: nan, Verdict: Unclear}
	s := stat.RankSum(x, base, confidence)
	c.fill(s.Estimate, s.Interval, s.OK, s.P)
	return c
}

// distances converts values to the scale on which they are compared; false if one
// of them cannot be converted.
func distances(x []float64, scale bench.Scale) ([]float64, bool) {
	if scale != bench.Difference && !positive(x) {
		return nil, false
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = toDistance(v, scale)
	}
	return out, true
}

// adjustAndDecide adjusts the p-values and gives the verdicts. Values and their in-run
// comparisons are one family, because the report shows both. Nothing is claimed while one of the
// runs is under way, not even of the others: its values adjust the whole family.
func (c *contrastBuilder) adjustAndDecide() {
	underWay := slices.ContainsFunc(c.Groups, func(g Group) bool {
		return slices.ContainsFunc(g.Runs, func(m Member) bool { return m.Running })
	})
	for _, role := range []bench.Role{bench.Primary, bench.Detail} {
		var family []*Comparison
		c.eachComparison(role, func(_ *ContrastMetric, _ *ContrastRow, _, v *Values) {
			family = append(family, v.Comparison)
		})
		holm(family, alpha)
		c.eachComparison(role, func(m *ContrastMetric, r *ContrastRow, _, v *Values) {
			v.Comparison.Verdict = TooFewRuns
			if v.Comparison.HasInterval {
				v.Comparison.Verdict = v.Comparison.decide(m.Metric.Better, v.Comparison.inside(r.Smallest), alpha).unless(r.Noisy)
			}
			if underWay {
				v.Comparison.Verdict = v.Comparison.Verdict.withoutClaim()
			}
		})
	}
}

// eachComparison calls do for all values of a role that are compared with the first group's.
func (c *contrastBuilder) eachComparison(
	role bench.Role, do func(m *ContrastMetric, r *ContrastRow, first, v *Values),
) {
	for i := range c.Metrics {
		m := &c.Metrics[i]
		if m.Metric.Role != role {
			continue
		}
		for j := range m.Rows {
			r := &m.Rows[j]
			first := &r.Sides[0]
			for k := range r.Sides {
				s := &r.Sides[k]
				if s.Comparison != nil {
					do(m, r, &first.Values, &s.Values)
				}
				if s.InRun.Comparison != nil {
					do(m, r, &first.InRun, &s.InRun)
				}
			}
		}
	}
}
