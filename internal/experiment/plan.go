package experiment

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// The defaults of an experiment, chosen so that a newcomer never thinks about
// them: two minutes, three percent.
const (
	defaultMinBlocks = 10
	defaultMaxBlocks = 500
	defaultWarmup    = 1
	defaultPrecision = 0.03
	defaultBudget    = 2 * time.Minute
	defaultTrial     = time.Minute
	defaultOperation = 30 * time.Second
	// AutoSlice is the length of a turn: long beside what giving a turn costs (0.1 ms), and short
	// beside what disturbs a machine.
	AutoSlice = 20 * time.Millisecond

	defaultWashout = 100 * time.Millisecond
)

// Known is what an experiment is held to: what there is in this build of
// tare, and what was found on this machine.
type Known struct {
	Workloads []bench.Workload
	Engines   []string // the names of the built-in engines, installed here or not
	Drivers   []Driver // what instances can be made of
	// Found returns the engines that `engine: auto` stands for, in this order. It is
	// asked only where the experiment says auto, since finding them costs time.
	Found func() []string
	Rank  []string // which engines `engine: auto-3` prefers, best first; native is always in
	// Behind names, for an engine that is another way to the daemon of a second one, that
	// second one: where it is taken, auto-3 does not take the same daemon twice.
	Behind map[string]string
}

// Plan expands the experiment. Seed is used where neither the file nor a flag
// gives one. The error is a *yamldoc.Error.
func (e *Experiment) Plan(known Known, seed uint64) (bench.Plan, error) {
	p := &planner{reader: newReader(e.src), file: e.file, known: known}
	p.checkInstances()
	p.findWorkload()
	p.expandFactors()
	p.checkSettings()
	p.checkPicks()
	if err := p.Err(); err != nil {
		return bench.Plan{}, err
	}
	plan := p.header(seed)
	plan.Factors = p.planFactors()
	plan.Cells = p.cells()
	plan.Restrict = p.primary(plan)
	plan.LeftOut = slices.DeleteFunc(p.leftOut, func(name string) bool {
		return slices.ContainsFunc(plan.Cells, func(c bench.Cell) bool { return c.Engine == name })
	})
	plan.MinBlocks, plan.MaxBlocks = p.blocks(plan)
	plan.TraceEvery(int(p.file.timeline.or(0)))
	if err := p.Err(); err != nil {
		return bench.Plan{}, err
	}
	return plan, nil
}

// A planner turns a file into a plan.
type planner struct {
	*reader
	file     file
	known    Known
	workload bench.Workload // nil if unknown, which is a problem that was noted

	factors, conditions []factor // with auto replaced by what was found
	leftOut             []string // engines found that auto's limit leaves out
}

// header fills in everything but factors, cells and blocks.
func (p *planner) header(seed uint64) bench.Plan {
	f := p.file
	plan := bench.Plan{
		Name:      f.name,
		Doc:       f.doc,
		Workload:  f.workload.value,
		Seed:      f.seed.or(seed),
		Warmup:    int(f.warmup.or(defaultWarmup)),
		Precision: f.precision.all.or(defaultPrecision),
		Budget:    f.budget.or(defaultBudget),
		Smallest:  f.smallest.all.or(0),
		TrialTime: f.timeouts.trial.or(defaultTrial),
		OpTime:    f.timeouts.operation.or(defaultOperation),
		Washout:   f.washout.or(defaultWashout),
		Slice:     f.slice.or(0),
		Syscalls:  f.syscalls.or(false),
		Hooks:     f.hooks,
		Labels:    f.labels,
	}
	for _, m := range f.primary {
		plan.Restrict = append(plan.Restrict, m.value)
	}
	for _, metric := range p.workload.Metrics() {
		if m := f.margin(metric.Name, plan); m != plan.Margin(metric.Name) {
			plan.Margins = append(plan.Margins, m)
		}
	}
	return plan
}

// margin is what holds for one metric. With a half-width of half of its margin a
// comparison is as good as settled (docs/method.md), so that is aimed at unless
// something else is said: of all metrics in the same place, or of this one.
func (f *file) margin(metric string, plan bench.Plan) bench.Margin {
	m, all := plan.Margin(metric), f.precision.all
	if said, ok := f.smallest.of(metric); ok {
		m.Smallest = said.value
		// A flag goes before what the file says of all metrics, but for "off": such a run
		// does not end by precision.
		free := !all.set || all.value > 0 && all.at.Flag == "" && said.at.Flag != ""
		if said.value > 0 && free {
			m.Precision = said.value / 2
		}
	}
	if said, ok := f.precision.of(metric); ok {
		m.Precision = said.value
	}
	return m
}

// primary are the metrics that decide: those that are named, as far as some cell measures them. Where none of them
// is left, it is what the workload has for the parts that cells do measure.
func (p *planner) primary(plan bench.Plan) []string {
	w, ok := p.workload.(bench.PartMeasurer)
	if !ok {
		return plan.Restrict
	}
	measured := func(metric string) bool {
		return slices.ContainsFunc(plan.Cells, func(c bench.Cell) bool { return w.Measures(c.Params, metric) })
	}
	var named, own []string
	left := 0 // metrics of the workload's own that no cell measures
	for _, m := range p.file.primary {
		switch {
		case measured(m.value):
			named = append(named, m.value)
		case m.at.Flag != "":
			p.Fail(m.at, "no cell measures metric "+yamldoc.Quote(m.value), "leave it out, or set the options so that its "+
				"part runs: 'tare params "+p.workload.Name()+"'")
		}
	}
	for _, m := range p.workload.Metrics() {
		switch {
		case m.Role != bench.Primary:
		case measured(m.Name):
			own = append(own, m.Name)
		default:
			left++
		}
	}
	if len(named) > 0 || left == 0 {
		return named
	}
	return own
}

// findWorkload also checks the metrics that are named.
func (p *planner) findWorkload() {
	var names []string
	for _, w := range p.known.Workloads {
		names = append(names, w.Name())
		if w.Name() == p.file.workload.value {
			p.workload = w
		}
	}
	if p.workload == nil {
		w := p.file.workload
		p.Fail(w.at, fmt.Sprintf("unknown workload %s", yamldoc.Quote(w.value)), suggest(w.value, "workloads", names))
		return
	}
	p.checkMetrics()
}

// checkMetrics checks the metrics that the file names.
func (p *planner) checkMetrics() {
	var metrics []string
	for _, m := range p.workload.Metrics() {
		metrics = append(metrics, m.Name)
	}
	check := func(name string, at yamldoc.Place) {
		if !slices.Contains(metrics, name) {
			p.Fail(at, fmt.Sprintf("workload %q has no metric %s", p.workload.Name(), yamldoc.Quote(name)),
				suggestListed(name, "its metrics", metrics, "tare metrics "+p.workload.Name()))
		}
	}
	for i, m := range p.file.primary {
		check(m.value, m.at)
		if slices.ContainsFunc(p.file.primary[:i], func(o placed[string]) bool { return o.value == m.value }) {
			p.Fail(m.at, fmt.Sprintf("metric %s is given twice", yamldoc.Quote(m.value)), "")
		}
	}
	for _, m := range slices.Concat(p.file.precision.one, p.file.smallest.one) {
		check(m.name, m.at)
	}
}

// blocks returns the least and the most number of blocks of the plan.
func (p *planner) blocks(plan bench.Plan) (least, most int) {
	b := p.file.blocks
	least, most = int(b.min.or(defaultMinBlocks)), int(b.max.or(defaultMaxBlocks))
	switch {
	case b.min.set && b.min.value == b.max.value:
		return least, most // exactly as many as were asked for; the analysis warns
	case !b.max.set:
		most = max(most, least)
	case !b.min.set:
		least = min(least, most)
	}
	return min(max(least, minBlocks(p.comparisons(plan))), most), most
}

// comparisons counts the primary comparisons of the plan, its family of tests: each cell
// with its baseline, and cells of one name over all conditions.
func (p *planner) comparisons(plan bench.Plan) int {
	metrics := 0
	for _, m := range p.workload.Metrics() {
		if plan.Role(m) == bench.Primary {
			metrics++
		}
	}
	compared, conditions := 0, map[string]int{} // by name
	for _, c := range plan.Cells {
		if c.Baseline || c.Control {
			continue
		}
		compared++
		if conditions[c.Name]++; conditions[c.Name] == 2 {
			compared++
		}
	}
	return compared * metrics
}

// minBlocks is the least number of pairs with which a family of tests can
// reject at all. The smallest two-sided p of the exact signed-rank test with n
// pairs is 2/2^n: all signs equal (docs/method.md, and the exact null
// distribution there). Holm multiplies the smallest p of m tests by m, so that
// m × 2^(1-n) ≤ α needs n ≥ 1 + log2(m/α), where α is what the first look at a run
// may spend. With fewer blocks every verdict would be "unclear" however large the
// difference.
func minBlocks(comparisons int) int {
	return 1 + int(math.Ceil(math.Log2(float64(max(comparisons, 1))/bench.LookLevel(1))))
}
