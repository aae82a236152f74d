// Package gate judges a run for continuous integration: whether something is worse by
// more than what matters. It writes the judgement as text, JSON, Markdown, JUnit and
// annotations.
//
// A gate fails only on a difference that the run confirms, after the adjustment for all
// comparisons, and whose estimate is beyond the margin. So over identical code it is red at
// most as often as a run claims something that is not there.
package gate

import (
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// Version is the version of the JSON form. It grows when a field changes its meaning or goes
// away.
const Version = 1

// An Outcome is what a gate says of a run.
type Outcome string

// The outcomes, from the worst. What is worse is worse whatever else can be said: the control of one metric is no
// excuse for another.
const (
	Worse        Outcome = "worse"         // confirmed, and beyond the margin
	Undecided    Outcome = "undecided"     // nothing can be said, or not shown harmless although the gate is strict
	TrialsFailed Outcome = "trials-failed" // it would have passed, but trials or parts of them failed
	Passed       Outcome = "passed"        // nothing is confirmed to be worse beyond the margin
)

// A State is what a gate says of one comparison.
type State string

// The states of a Check.
const (
	IsWorse    State = "worse"      // confirmed, and beyond the margin
	Harmless   State = "harmless"   // the interval lies below the margin
	Unproved   State = "unproved"   // neither is shown
	Unreliable State = "unreliable" // the verdict is unreliable, nothing was compared, or no difference could be confirmed
)

// states lists them, from the one that a reader must see first.
func states() []State { return []State{IsWorse, Unreliable, Unproved, Harmless} }

// A Judgement is what a gate says of a run.
type Judgement struct {
	Gate       int     `json:"gate"` // Version
	Outcome    Outcome `json:"outcome"`
	Strict     bool    `json:"strict"` // only what is shown to be harmless passes
	Run        string  `json:"run"`    // its ID
	Experiment string  `json:"experiment"`
	Host       string  `json:"host"`
	Seed       uint64  `json:"seed,string"`
	Blocks     int     `json:"blocks"`
	Failed     int     `json:"failed_trials"` // with warm-up trials, and parts of trials
	Checks     []Check `json:"checks"`        // of each primary metric with a better direction, condition and cell

	id      string // what commands call the run
	running bool   // it is under way, so it claims nothing
}

// A Check is one comparison.
type Check struct {
	Metric    string `json:"metric"`
	Title     string `json:"title"`
	Unit      string `json:"unit"`
	Cell      string `json:"cell"`
	Baseline  string `json:"baseline"`
	Condition string `json:"condition"` // empty where there is none
	State     State  `json:"state"`
	// Margin is what may be worse: a ratio, 0.05 = 5 %, or in the unit for differences. It is null where nothing
	// could be judged by it.
	Margin  *float64       `json:"margin"`
	Effect  *report.Effect `json:"effect"`  // null where nothing was compared
	Finding string         `json:"finding"` // in words

	rate bool // more is better, so that a factor of 1.05 is 4.76 % less
}

// Judge judges the report of one run. id is what commands call the run.
func Judge(d *report.Document, strict bool, id string) *Judgement {
	run := &d.Runs[0]
	j := &Judgement{
		Gate: Version, Outcome: Passed, Strict: strict, Run: run.ID, Experiment: run.Experiment, Host: run.Host.Hostname,
		Seed: run.Seed, Blocks: run.Blocks, Checks: []Check{}, id: id,
		running: run.Stopped == report.StillRunning,
	}
	for _, f := range d.Failed {
		if f.Outcome.Failure() {
			j.Failed += f.Count
		}
	}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		if m.Role != bench.Primary || m.Better == bench.Neither {
			continue
		}
		for k := range m.Conditions {
			j.check(m, &m.Conditions[k])
		}
	}
	j.decide()
	return j
}

// check judges every cell under one condition. A metric that no cell has is left out.
func (j *Judgement) check(m *report.Metric, c *report.Condition) {
	if !slices.ContainsFunc(c.Rows, func(r report.Row) bool { return r.N > 0 }) {
		return
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.Cell == c.Baseline {
			continue
		}
		check := Check{
			Metric: m.Name, Title: m.Title, Unit: m.Unit, Cell: r.Cell, Baseline: c.Baseline, Condition: c.Condition,
			Effect: r.Effect, State: Unreliable,
		}
		if r.Finding != nil {
			check.Finding = r.Finding.Text
		}
		if e := r.Effect; e != nil && e.Estimate != nil && analysis.Verdict(e.Verdict) != analysis.Unreliable {
			check.Margin = &e.Smallest
			var judged float64
			check.State, judged = stateOf(m, e, c.Unreliable)
			if e.Scale != bench.Difference {
				check.rate = m.Better == bench.Higher
				check.Finding += check.exactly(judged, check.State != IsWorse)
			}
		}
		if why := c.ControlDiffers(m); check.State == Unreliable && why != "" {
			check.Finding += "; " + why
		}
		j.Checks = append(j.Checks, check)
	}
}

// stateOf judges one effect, and says by which worsening. Where no difference could have been confirmed,
// that none was is no news. Where the control differs, it is not known how large an effect is: only its direction.
func stateOf(m *report.Metric, e *report.Effect, controlDiffers bool) (s State, judged float64) {
	estimate, badEnd := worsening(m, e, e.Estimate), math.Inf(1)
	if e.Low != nil && e.High != nil {
		badEnd = max(worsening(m, e, e.Low), worsening(m, e, e.High))
	}
	margin := e.Smallest
	if e.Scale != bench.Difference {
		margin = math.Log1p(margin)
	}
	switch {
	case analysis.Verdict(e.Verdict) == analysis.Worse && estimate > margin:
		return IsWorse, estimate
	case badEnd <= margin && (!controlDiffers || analysis.Verdict(e.Verdict) == analysis.Better):
		return Harmless, badEnd
	case e.Detectable == nil, controlDiffers:
		return Unreliable, badEnd
	default:
		return Unproved, badEnd
	}
}

// worsening is by how much a value of an effect is worse than no difference: the logarithm of a
// ratio, or a difference. Below 0 it is better.
func worsening(m *report.Metric, e *report.Effect, v *float64) float64 {
	d := *v
	if e.Scale != bench.Difference {
		d = math.Log(d)
	}
	if m.Better == bench.Higher {
		return -d
	}
	return d
}

// outcomeOf is what one check means for the gate.
func (j *Judgement) outcomeOf(c *Check) Outcome {
	switch {
	case c.State == IsWorse:
		return Worse
	case c.State == Unreliable, c.State == Unproved && j.Strict:
		return Undecided
	default:
		return Passed
	}
}

// decide says what the checks mean together.
func (j *Judgement) decide() {
	has := func(o Outcome) bool {
		return slices.ContainsFunc(j.Checks, func(c Check) bool { return j.outcomeOf(&c) == o })
	}
	switch {
	case has(Worse):
		j.Outcome = Worse
	case j.running, len(j.Checks) == 0, has(Undecided):
		j.Outcome = Undecided
	case j.Failed > 0:
		j.Outcome = TrialsFailed
	}
}

// ranked lists the checks in the order in which a reader must see them, for what has no room for all.
func (j *Judgement) ranked() []*Check {
	var all []*Check
	for i := range j.Checks {
		all = append(all, &j.Checks[i])
	}
	rank := func(c *Check) int { return slices.Index(states(), c.State) }
	slices.SortStableFunc(all, func(a, b *Check) int { return rank(a) - rank(b) })
	return all
}

// count is how many checks have a state.
func (j *Judgement) count(s State) (n int) {
	for i := range j.Checks {
		if j.Checks[i].State == s {
			n++
		}
	}
	return n
}

// name is what was compared, in words.
func (c *Check) name() string {
	s := line(c.Title) + ", " + line(c.Cell)
	if c.Condition != "" {
		s += ", " + line(c.Condition)
	}
	return s
}

// pair is name with the baseline.
func (c *Check) pair() string { return c.name() + " against " + line(c.Baseline) }
