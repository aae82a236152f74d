package cli_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/perf/benchfmt"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// Every number of a report follows from what is exported, by docs/report-format.md.
func TestEveryNumberCanBeRecomputed(t *testing.T) {
	t.Parallel() // nothing is measured
	p := newTestEnv(t)
	engines := append(usable(t, "floor", "runc"), "native")
	ran := p.must(t, small(engines, "--blocks", "12", "--json")...)
	shown := p.must(t, "show", "--json")
	if shown.stdout != ran.stdout {
		t.Error("show says something else than run did")
	}
	var result report.Document
	var d exported
	decode(t, shown.stdout, &result)
	for line := range strings.Lines(p.must(t, "export", "last").stdout) {
		d.add(t, line)
	}

	ignore := cmp.Options{
		cmpopts.IgnoreUnexported(report.Row{}, report.Effect{}), cmpopts.IgnoreFields(report.Row{}, "Finding"),
		cmpopts.EquateApprox(1e-9, 1e-15), cmpopts.EquateNaNs(),
	}
	// Operations that this run does not do have no numbers.
	result.Metrics = slices.DeleteFunc(result.Metrics,
		func(m report.Metric) bool { return m.Conditions[0].Rows[0].N == 0 })
	if diff := cmp.Diff(d.metrics(), result.Metrics, ignore); diff != "" {
		t.Errorf("metrics (-recomputed +said):\n%s", diff)
	}
	if diff := cmp.Diff(d.reasons(result.Reasons), result.Reasons, ignore); diff != "" {
		t.Errorf("reasons (-recomputed +said):\n%s", diff)
	}
	run := result.Runs[0]
	if diff := cmp.Diff(d.blocks(), run.BlockNumbers); diff != "" {
		t.Errorf("blocks (-recomputed +said):\n%s", diff)
	}
	if run.Trials != d.trials() || run.Blocks != len(d.blocks()) || math.Abs(run.Wall-d.wall()) > 1e-9 {
		t.Errorf("the run: %+v, %d blocks, %v s; want %+v, %d, %v",
			run.Trials, run.Blocks, run.Wall, d.trials(), len(d.blocks()), d.wall())
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// exported is what the recomputation reads of an export.
type exported struct {
	Header  bench.Header
	Samples []exportedSample
}

type exportedSample struct {
	Block, Cell int
	Outcome     bench.Outcome
	Began       time.Time
	Elapsed     time.Duration `json:"elapsed_ns"`
	Values      map[string]float64
}

// add reads a line: the header, which is the first one, a sample, or the end.
func (d *exported) add(t *testing.T, line string) {
	t.Helper()
	if d.Header.ID == "" {
		decode(t, line, &d.Header)
		return
	}
	var l struct{ Sample *exportedSample }
	if decode(t, line, &l); l.Sample != nil {
		d.Samples = append(d.Samples, *l.Sample)
	}
}

func (d *exported) trials() (n report.Trials) {
	for _, s := range d.Samples {
		switch {
		case s.Block < 0:
			n.Warmup++
		case s.Outcome == bench.OK:
			n.OK++
		}
	}
	return n
}

func (d *exported) wall() float64 {
	last := d.Samples[len(d.Samples)-1]
	return last.Began.Add(last.Elapsed).Sub(d.Samples[0].Began).Seconds()
}

// blocks lists the numbers of the blocks that count.
func (d *exported) blocks() (all []int) {
	for _, s := range d.Samples {
		if s.Block >= 0 && s.Outcome == bench.OK && !slices.Contains(all, s.Block) {
			all = append(all, s.Block)
		}
	}
	return all
}

// column is the values of a metric in a cell, by block.
func (d *exported) column(metric string, cell int) map[int]float64 {
	column := map[int]float64{}
	for _, s := range d.Samples {
		if v, ok := s.Values[metric]; ok && s.Block >= 0 && s.Cell == cell && s.Outcome == bench.OK {
			column[s.Block] = v
		}
	}
	return column
}

// values is a column in the order of blocks.
func (d *exported) values(metric string, cell int) (x []float64) {
	column := d.column(metric, cell)
	for _, block := range d.blocks() {
		if v, ok := column[block]; ok {
			x = append(x, v)
		}
	}
	return x
}

// singles are the values of a primary metric in a cell, one for each block; NaN = none.
func (d *exported) singles(m bench.Metric, cell int) (all report.Numbers) {
	column := d.column(m.Name, cell)
	for _, block := range d.blocks() {
		v, ok := column[block]
		if !ok {
			v = math.NaN()
		}
		all = append(all, v)
	}
	if m.Role != bench.Primary {
		return nil
	}
	return all
}

// changes are the single pairs of a primary metric, one for each block.
func (d *exported) changes(m bench.Metric, cell, baseline int) (all report.Numbers) {
	base := d.singles(m, baseline)
	for i, v := range d.singles(m, cell) {
		if m.Scale == bench.Difference {
			all = append(all, v-base[i])
		} else {
			all = append(all, v/base[i])
		}
	}
	return all
}

// distances is how far a cell is from its baseline, in each block with both.
func (d *exported) distances(metric string, cell, baseline int, scale bench.Scale) (diffs []float64) {
	x, base := d.column(metric, cell), d.column(metric, baseline)
	for _, block := range d.blocks() {
		v, ok1 := x[block]
		b, ok2 := base[block]
		switch {
		case !ok1 || !ok2:
		case scale == bench.Difference:
			diffs = append(diffs, v-b)
		default:
			diffs = append(diffs, math.Log(v)-math.Log(b))
		}
	}
	return diffs
}

// paired is the comparison of two cells, but for what depends on others.
func (d *exported) paired(metric string, cell, baseline int, scale bench.Scale) *report.Effect {
	back := math.Exp
	if scale == bench.Difference {
		back = func(v float64) float64 { return v }
	}
	s := stat.SignedRank(d.distances(metric, cell, baseline, scale), 0.95)
	e := &report.Effect{Scale: scale, Pairs: s.N, Estimate: new(back(s.Estimate)), P: &s.P}
	if s.OK {
		e.Low, e.High, e.Level = new(back(s.Interval.Low)), new(back(s.Interval.High)), s.Interval.Level
	}
	return e
}

func halfWidth(e *report.Effect) float64 {
	if e.Scale == bench.Difference {
		return (*e.High - *e.Low) / 2
	}
	return math.Sqrt(*e.High / *e.Low) - 1
}

func inside(e *report.Effect, delta float64) bool {
	if e.Scale == bench.Difference {
		return *e.Low >= -delta && *e.High <= delta
	}
	return *e.Low >= 1/(1+delta) && *e.High <= 1+delta
}

// metrics recomputes the tables of a plan without conditions and with a control.
func (d *exported) metrics() []report.Metric {
	var all []report.Metric
	for _, role := range []bench.Role{bench.Primary, bench.Detail} {
		var family []report.Metric
		for _, m := range d.Header.Metrics {
			if m.Role == role && len(d.values(m.Name, d.baseline())) > 0 {
				family = append(family, d.metric(m))
			}
		}
		d.judge(family)
		all = append(all, family...)
	}
	return all
}

func (d *exported) metric(m bench.Metric) report.Metric {
	out := report.Metric{
		Name: m.Name, Title: m.Title, Unit: m.Unit, Better: m.Better, Role: m.Role, Scale: m.Scale, Doc: m.Doc,
	}
	cells := d.Header.Plan.Cells
	baseline := d.baseline()
	c := report.Condition{Baseline: cells[baseline].Name, Levels: []report.ConditionLevel{}}
	for i, cell := range cells {
		if cell.Control {
			c.Noise, c.Control = d.paired(m.Name, i, baseline, m.Scale), d.singles(m, i)
			c.Noise.Changes = d.changes(m, i, baseline)
			continue
		}
		x := d.values(m.Name, i)
		row := report.Row{Cell: cell.Name, N: len(x), Values: d.singles(m, i)}
		if len(x) > 0 {
			row.Median = new(stat.Median(x))
		}
		if interval, ok := stat.MedianInterval(x, 0.95); ok {
			row.Low, row.High = &interval.Low, &interval.High
		}
		if i != baseline {
			row.Effect = d.paired(m.Name, i, baseline, m.Scale)
			row.Effect.Changes = d.changes(m, i, baseline)
			if m.Scale == bench.Ratio {
				e := d.paired(m.Name, i, baseline, bench.Difference)
				row.Effect.Shift = &report.Shift{Estimate: *e.Estimate, Low: e.Low, High: e.High}
			}
			row.Effect.Smallest = max(0.01*unitOf(m, stat.Median(d.values(m.Name, baseline))), 0)
		}
		c.Rows = append(c.Rows, row)
	}
	for _, row := range c.Rows {
		if row.Effect != nil {
			row.Effect.Smallest = max(row.Effect.Smallest, halfWidth(c.Noise))
		}
	}
	out.Conditions = []report.Condition{c}
	return out
}

func (d *exported) baseline() int {
	return slices.IndexFunc(d.Header.Plan.Cells, func(c bench.Cell) bool { return c.Baseline })
}

// unitOf is what one per cent of a metric's effect is one per cent of.
func unitOf(m bench.Metric, baseline float64) float64 {
	if m.Scale == bench.Difference {
		return math.Abs(baseline)
	}
	return 1
}

// judge adjusts a family of metrics and gives its verdicts.
func (d *exported) judge(family []report.Metric) {
	var effects, controls []*report.Effect
	for _, m := range family {
		controls = append(controls, m.Conditions[0].Noise)
		for _, row := range m.Conditions[0].Rows {
			if row.Effect != nil {
				effects = append(effects, row.Effect)
			}
		}
	}
	holm(effects)
	holm(controls)
	for i := range family {
		c := &family[i].Conditions[0]
		median := *c.Rows[slices.IndexFunc(c.Rows, func(r report.Row) bool { return r.Effect == nil })].Median
		percent := 0.01 * unitOf(bench.Metric{Scale: family[i].Scale}, median)
		c.Noise.Verdict, c.Noise.Alpha = verdict(c.Noise, bench.Neither, percent), bench.LookLevel(1)
		c.Unreliable = c.Noise.Verdict == "different"
		for _, row := range c.Rows {
			if row.Effect != nil {
				d.conclude(row.Effect, family[i], percent, len(effects), row.Cell)
			}
		}
	}
}

func (d *exported) conclude(e *report.Effect, m report.Metric, percent float64, family int, cell string) {
	c := m.Conditions[0]
	noisy := halfWidth(c.Noise) > 10*percent
	e.Noisy, e.Alpha = noisy, bench.LookLevel(1)
	e.Detectable = detectable(e, family)
	e.Verdict = verdict(e, m.Better, e.Smallest)
	if noisy && e.Verdict == "same" {
		e.Verdict = "unclear"
	}
	switch {
	case c.Unreliable && (e.Verdict == "same" || !farBeyond(e, c.Noise)):
		e.Verdict = "unreliable"
	case e.Verdict == "unclear":
		delta, quiet := e.Smallest, 0
		if noisy {
			delta, quiet = 10*percent, d.quiets(m, 10*percent)
		}
		e.Blocks = d.settles(e, m, delta, quiet, family, cell, 1)
		e.Extended = d.settles(e, m, delta, quiet, family, cell, 2)
	}
}

// farBeyond says that the whole interval is more than 12.706 times as far from no difference as that of the control.
func farBeyond(e, control *report.Effect) bool {
	if e.Low == nil {
		return false
	}
	ends := func(e *report.Effect) (low, high float64) {
		low, high = *e.Low, *e.High
		if e.Scale != bench.Difference {
			low, high = math.Log(low), math.Log(high)
		}
		return low, high
	}
	from, to := ends(control)
	least := 12.706 * max(math.Abs(from), math.Abs(to))
	low, high := ends(e)
	return low > least || high < -least
}

// detectable is the difference beyond the smallest that matters that is confirmed in four of five runs: the
// test of its family rejects beyond a number of standard errors, and the interval says how large one is.
func detectable(e *report.Effect, family int) *float64 {
	alpha := bench.LookLevel(1)
	if e.Low == nil || e.Pairs < stat.MinPairs(1-alpha, family) {
		return nil
	}
	low, high, delta := *e.Low, *e.High, e.Smallest
	if e.Scale != bench.Difference {
		low, high, delta = math.Log(low), math.Log(high), math.Log1p(delta)
	}
	se := (high - low) / 2 / stat.Normal((1+e.Level)/2)
	found := max(stat.Normal(1-alpha/2/float64(family))*se, delta) + stat.Normal(0.8)*se
	if e.Scale != bench.Difference {
		found = math.Exp(found)
	}
	return &found
}

// mostBlocks is the largest estimate that is given.
const mostBlocks = 100_000

// pairsFor is how many pairs bring an interval to the half width, at most one
// more than mostBlocks.
func pairsFor(diffs []float64, halfWidth, level float64) int {
	if n := stat.PairsFor(diffs, halfWidth, level); n > 0 {
		return min(n, mostBlocks+1)
	}
	return mostBlocks + 1
}

// quiets is how many pairs bring the noise to ±delta.
func (d *exported) quiets(m report.Metric, delta float64) int {
	control := slices.IndexFunc(d.Header.Plan.Cells, func(c bench.Cell) bool { return c.Control })
	if m.Scale == bench.Ratio {
		delta = math.Log1p(delta)
	}
	return pairsFor(d.distances(m.Name, control, d.baseline(), m.Scale), delta, 0.95)
}

// twoDigits rounds an estimate up to two digits.
func twoDigits(n int) int {
	step := 1
	for n/step >= 100 {
		step *= 10
	}
	return (n + step - 1) / step * step
}

func verdict(e *report.Effect, better bench.Direction, delta float64) string {
	none := 1.0
	if e.Scale == bench.Difference {
		none = 0
	}
	switch {
	case inside(e, delta):
		return "same"
	case *e.Adjusted >= bench.LookLevel(1) || *e.Estimate == none:
		return "unclear"
	case better == bench.Neither:
		return "different"
	case (*e.Estimate > none) == (better == bench.Higher):
		return "better"
	default:
		return "worse"
	}
}

// settles is how many blocks would settle what is unclear: as many as bring the
// interval off no difference, or inside ±delta while the noise is known, too. From the second
// look on, the interval has the level of its test.
func (d *exported) settles(
	e *report.Effect, m report.Metric, delta float64, quiet, family int, cell string, look int,
) int {
	level := 0.95
	if look > 1 {
		level = 1 - bench.LookLevel(look)
	}
	cells := d.Header.Plan.Cells
	at := slices.IndexFunc(cells, func(c bench.Cell) bool { return c.Name == cell })
	diffs := d.distances(m.Name, at, d.baseline(), m.Scale)
	size := math.Abs(*e.Estimate)
	if m.Scale == bench.Ratio {
		size, delta = math.Abs(math.Log(*e.Estimate)), math.Log1p(delta)
	}
	need := mostBlocks + 1
	if size > 0 {
		need = max(pairsFor(diffs, size, level), stat.MinPairs(1-bench.LookLevel(look), family))
	}
	if delta > size {
		need = min(need, max(pairsFor(diffs, delta-size, level), quiet))
	}
	if need > mostBlocks {
		return 0
	}
	return max(twoDigits(need), len(d.blocks())+1)
}

func holm(family []*report.Effect) {
	var p []float64
	for _, e := range family {
		p = append(p, *e.P)
	}
	for i, adjusted := range stat.Holm(p) {
		family[i].Adjusted = &adjusted
	}
}

// reasons recomputes the numbers of the reasons that were given.
func (d *exported) reasons(result []report.Reason) []report.Reason {
	out := []report.Reason{}
	cells := d.Header.Plan.Cells
	baseline := d.baseline()
	for _, r := range result {
		cell := slices.IndexFunc(cells, func(c bench.Cell) bool { return c.Name == r.Cell })
		var family []*report.Effect
		var own *report.Effect
		for _, m := range d.Header.Metrics {
			if m.Role != bench.Counter || counterPrefix(m.Name) != counterPrefix(r.Metric) {
				continue
			}
			e := d.counter(m.Name, cell, baseline)
			if e == nil ||
				!slices.ContainsFunc(d.distances(m.Name, cell, baseline, e.Scale), func(v float64) bool { return v != 0 }) {
				continue // what never differs is not tested
			}
			family = append(family, e)
			if m.Name == r.Metric {
				own = e
			}
		}
		holm(family)
		own.Verdict, own.Alpha = "different", 0.05 // only reasons that the test gives are named
		r.Baseline, r.Value = stat.Median(d.values(r.Metric, baseline)), stat.Median(d.values(r.Metric, cell))
		r.Effect = *own
		r.For = d.together(r, cell, baseline)
		out = append(out, r)
	}
	return out
}

// counterPrefix is what the name of a counter begins with.
func counterPrefix(counter string) string {
	before, _, _ := strings.Cut(counter, ".")
	return before
}

// together recomputes how a counter goes with the metrics that it is a reason for.
func (d *exported) together(r report.Reason, cell, baseline int) (all []report.Explained) {
	counter := d.distances(r.Metric, cell, baseline, r.Effect.Scale)
	for _, e := range r.For {
		m := d.Header.Metrics[slices.IndexFunc(d.Header.Metrics, func(m bench.Metric) bool { return m.Name == e.Metric })]
		e.Correlation = stat.RankCorrelation(d.distances(m.Name, cell, baseline, m.Scale), counter)
		all = append(all, e)
	}
	return all
}

// counter compares a counter as a ratio where every value is above zero, else
// as a difference; nil where there is nothing to compare.
func (d *exported) counter(metric string, cell, baseline int) *report.Effect {
	x, base := d.values(metric, cell), d.values(metric, baseline)
	if len(x) == 0 || len(base) == 0 {
		return nil
	}
	scale := bench.Ratio
	if slices.Min(x) <= 0 || slices.Min(base) <= 0 {
		scale = bench.Difference
	}
	return d.paired(metric, cell, baseline, scale)
}

// What is exported for benchstat is the Go benchmark format, with every value.
func TestBenchstatReadsTheExport(t *testing.T) {
	p := newTestEnv(t)
	p.must(t, small([]string{"native"})...)
	text := p.must(t, "export", "last", "--format", "gobench").stdout
	r := benchfmt.NewReader(strings.NewReader(text), "export")
	results := 0
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			results++
		case *benchfmt.SyntaxError:
			t.Error(rec)
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if want := 2 * 6; results != want {
		t.Errorf("%d results, want %d", results, want)
	}
}
