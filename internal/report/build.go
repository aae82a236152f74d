package report

import (
	"cmp"
	"math"
	"regexp"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// Short is a short form of a run's ID, by which its user can find the run; nil = the ID itself.
type Short func(id string) string

// id writes the short form.
func (s Short) id(run *Run) string {
	if s == nil {
		return plain.Line(run.ID)
	}
	return plain.Line(s(run.ID))
}

// in has a text name runs by their short forms. An ID of another form, which only a foreign file can
// have, stays: it could be any word.
func (s Short) in(text string) string {
	if s == nil {
		return text
	}
	return runIDs.ReplaceAllStringFunc(text, s)
}

// runIDs matches the IDs that tare gives to runs.
var runIDs = regexp.MustCompile(`\b\d{8}-\d{6}-[a-z0-9]+\b`)

// name is what commands call a run.
func (s Short) name(run *Run) string { return cmp.Or(plain.Line(run.Name), s.id(run)) }

// New describes the result of one run.
func New(r *analysis.Result, short Short) *Document {
	cells := r.Header.Plan.Cells
	d := &Document{
		Report: Version, Kind: OneRun, Unit: "trial",
		Runs:    []Run{newRun(r.Header, r.End)},
		Metrics: []Metric{}, Reasons: []Reason{}, Failed: []Failure{}, Warned: []Warning{}, DataPaths: []DataPath{},
		Settings: newSettings(cells, r.Applied), Spectra: newSpectra(r), Curves: newCurves(r),
	}
	run := &d.Runs[0]
	run.BlockNumbers = append(run.BlockNumbers, r.BlockNumbers...)
	run.say(r.Running)
	run.Blocks, run.Wall, run.Resumptions = r.Blocks, r.Wall.Seconds(), len(r.Resumptions)
	run.Looks, run.LookLevel = r.Looks, r.LookLevel
	run.Trials = Trials(r.Trials)
	for _, m := range r.Metrics {
		d.Metrics = append(d.Metrics, newMetric(cells, m))
	}
	for _, x := range r.Reasons {
		reason := Reason{
			Metric: x.Metric.Name, Title: x.Metric.Title, Unit: x.Metric.Unit,
			Cell: cells[x.Cell].Name, Condition: x.Condition,
			Baseline: x.Baseline, Value: x.Value, Effect: *newEffect(&x.Comparison, 0, false),
		}
		for _, e := range x.For {
			reason.For = append(reason.For, Explained(e))
		}
		d.Reasons = append(d.Reasons, reason)
	}
	for _, f := range r.Failures {
		d.Failed = append(d.Failed, Failure{
			Cell: cells[f.Cell].Name, Condition: cells[f.Cell].Condition, Part: f.Part, Outcome: f.Outcome,
			Operation: f.Operation, Count: f.Count, Warmup: f.Warmup, Reason: f.Reason,
		})
	}
	for _, w := range r.DataPaths {
		d.DataPaths = append(d.DataPaths,
			DataPath{
				Cell: cells[w.Cell].Name, Condition: cells[w.Cell].Condition, Path: append([]string{}, w.Path...), Data: w.Data,
			})
	}
	for _, l := range r.Levels {
		d.Levels = append(d.Levels, newLevel(cells, l))
	}
	for _, c := range r.TurnCosts {
		d.TurnCosts = append(d.TurnCosts, newTurnCost(cells, c))
	}
	for _, w := range r.Warnings {
		d.Warned = append(d.Warned, newWarn(cells, w))
	}
	d.find(r.End != nil)
	d.Trust = newTrust(&r.Trust)
	d.sayRun(r, short)
	d.sayScreen(r, short)
	return d
}

func newTrust(t *analysis.Trust) *Trust {
	return &Trust{
		Level: t.Level, Codes: append([]string{}, t.Codes...), Pairs: t.Pairs, Needed: t.Needed, Extended: t.Extended,
		Reason: plain.Line(t.Why), // it has names of cells
	}
}

// newRun describes a run as far as its header and end do.
func newRun(h *bench.Header, end *bench.End) Run {
	r := Run{
		ID: h.ID, Name: h.Name, Notes: newNotes(h.Remarks), Tool: h.Tool, Began: h.Began.UTC(), Experiment: h.Plan.Name,
		Workload: h.Plan.Workload, BlockNumbers: []int{},
		Seed: h.Plan.Seed, Precision: h.Plan.Precision, Margins: h.Plan.Margins, Stopped: stoppedIncomplete,
		Host: h.Host, Engines: h.Engines, Labels: h.Plan.Labels, Programs: programs(h.Plan.Cells),
		Plan: newPlan(h), imported: h.Imported,
	}
	if h.Joint != nil {
		r.on = h.Joint.Hosts
	}
	if r.Engines == nil {
		r.Engines = []bench.EngineInfo{}
	}
	if r.Margins == nil {
		r.Margins = []bench.Margin{}
	}
	if r.Labels == nil {
		r.Labels = []bench.Label{}
	}
	if end != nil {
		r.Stopped, r.Overhead = string(end.Reason), &end.Overhead
	}
	return r
}

// describe begins a Metric.
func describe(m bench.Metric, smallest float64) Metric {
	return Metric{
		Name: m.Name, Title: m.Title, Unit: m.Unit, Better: m.Better, Role: m.Role, Scale: m.Scale,
		Doc: m.Doc, Smallest: smallest,
	}
}

func newMetric(cells []bench.Cell, m analysis.MetricResult) Metric {
	out := describe(m.Metric, m.Asked)
	for _, c := range m.Conditions {
		out.Conditions = append(out.Conditions, newCondition(cells, c))
	}
	if m.Summary != nil {
		sum := newCondition(cells, *m.Summary)
		out.Summary = &sum
	}
	return out
}

func newCondition(cells []bench.Cell, c analysis.ConditionResult) Condition {
	out := Condition{
		Condition: c.Condition, Baseline: cells[c.Baseline].Name,
		Noise: newEffect(c.Noise, 0, false), Unreliable: c.Unreliable,
		Levels: newConditionLevels(c.Levels), Control: c.ControlValues,
	}
	if c.Spread > 0 {
		out.Spread = &c.Spread
	}
	for _, v := range c.Cells {
		out.Rows = append(out.Rows, Row{
			Cell: v.Name, N: v.N, Failed: v.Failed, Unsupported: v.Unsupported,
			Median: number(v.Value), Low: number(v.Low), High: number(v.High),
			Effect: newEffect(v.Comparison, c.Smallest, c.Noisy), Values: v.Values, index: v.Cell,
		})
	}
	return out
}

// newEffect describes a comparison; nil for nil.
func newEffect(c *analysis.Comparison, smallest float64, noisy bool) *Effect {
	if c == nil {
		return nil
	}
	e := &Effect{
		Scale: c.Scale, Pairs: c.Pairs, Estimate: number(c.Estimate), Low: number(c.Low), High: number(c.High),
		Level: c.Level, P: number(c.P), Adjusted: number(c.Adjusted), Alpha: c.Alpha, Verdict: string(c.Verdict),
		Blocks: c.Blocks, Extended: c.Extended, Smallest: smallest, Noisy: noisy, Changes: c.Changes,
		Interrupted: c.Interrupted,
	}
	if c.Detectable > 0 {
		e.Detectable = &c.Detectable
	}
	if s := c.Shift; s != nil {
		e.Shift = &Shift{Estimate: s.Estimate, Low: number(s.Low), High: number(s.High)}
	}
	return e
}

// number is nil for what JSON cannot write.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func newWarn(cells []bench.Cell, w bench.Warning) Warning {
	out := Warning{
		Code: w.Code, Text: w.Text, Hint: w.Hint, Metric: w.Metric, Cells: []string{}, Also: append([]string{}, w.Also...),
	}
	for _, c := range w.Cells {
		if c >= 0 && c < len(cells) { // those of the header come from a file
			out.Cells = append(out.Cells, analysis.CellName(&cells[c]))
		}
	}
	return out
}

// NewComparison describes runs that were made apart.
func NewComparison(c *analysis.Contrast, short Short) *Document {
	d := &Document{
		Report: Version, Kind: Comparison, Unit: string(c.Unit),
		Metrics: []Metric{}, Reasons: []Reason{}, Failed: []Failure{}, Warned: []Warning{}, DataPaths: []DataPath{},
		Settings: []Applied{}, Differences: []Difference{}, Spectra: []Spectrum{}, Curves: []Curve{},
	}
	for _, g := range c.Groups {
		group := Group{Name: g.Name}
		for _, s := range g.Runs {
			group.Runs = append(group.Runs, s.Header.ID)
			run := newRun(s.Header, s.End)
			run.say(s.Running)
			run.Blocks, run.Wall, run.Resumptions, run.Trials = s.Blocks, s.Wall.Seconds(), s.Resumptions, Trials(s.Trials)
			run.Looks, run.LookLevel = s.Looks, bench.LookLevel(s.Looks)
			d.Runs = append(d.Runs, run)
		}
		d.Groups = append(d.Groups, group)
	}
	for _, m := range c.Metrics {
		d.Metrics = append(d.Metrics, contrastMetric(c, m))
	}
	for _, w := range c.Warnings {
		d.Warned = append(d.Warned, newWarn(nil, w))
	}
	for _, x := range c.Differ {
		d.Differences = append(d.Differences, Difference{x.What, x.Values, append([][]string{}, x.Groups...)})
	}
	d.findApart()
	d.Trust = newTrust(&c.Trust)
	d.sayComparison(short)
	d.sayScreenApart(short, c.Groups[0].Runs[0].Header.MeasuredBy == "")
	return d
}

// newInRun describes what a cell is against its own run's baseline; nil if it has none.
func newInRun(r *analysis.ContrastRow, v *analysis.Values) *InRun {
	if r.Baseline == "" {
		return nil
	}
	return &InRun{
		Baseline: r.Baseline, N: v.N, Median: number(v.Value), Low: number(v.Low), High: number(v.High),
		Effect: newEffect(v.Comparison, r.Smallest, r.Noisy),
	}
}

// contrastMetric lists, under each condition, each cell once per group.
func contrastMetric(c *analysis.Contrast, m analysis.ContrastMetric) Metric {
	out := describe(m.Metric, m.Asked)
	for _, r := range m.Rows {
		if n := len(out.Conditions); n == 0 || out.Conditions[n-1].Condition != r.Condition {
			out.Conditions = append(out.Conditions, Condition{
				Condition: r.Condition, Baseline: c.Groups[0].Name, Levels: []ConditionLevel{},
			})
		}
		at := &out.Conditions[len(out.Conditions)-1]
		for i, s := range r.Sides {
			var each Numbers
			if out.Role == bench.Primary { // as in the report of one run
				each = s.Each
			}
			at.Rows = append(at.Rows, Row{
				Cell: r.Cell, Group: c.Groups[i].Name, N: s.N,
				Median: number(s.Value), Low: number(s.Low), High: number(s.High),
				Effect: newEffect(s.Comparison, r.Smallest, r.Noisy), InRun: newInRun(&r, &s.InRun), Values: each,
			})
		}
	}
	return out
}
