// Package analysis turns a stored run into comparisons, verdicts, reasons and
// warnings, exactly as docs/method.md says. It works from the run alone: it
// reads no clock, no file and no machine, and the same run gives the same
// result everywhere.
//
// The unit is the trial. A cell is compared with the baseline of its condition
// block by block, so slow drift of the machine cancels out.
package analysis

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

const (
	// confidence is the level of every interval.
	confidence = 0.95
	// alpha is the probability of one false alarm or more in a family of tests, of all
	// looks at a run together.
	alpha = 0.05
	// smallest is the smallest effect worth knowing if the plan sets none and the
	// noise is below it.
	smallest = 0.01
	// noisy is the noise above which nothing is called the same, unless the plan
	// sets the smallest effect worth knowing.
	noisy = 0.10
)

// Options change how a run is analysed. The zero value is right.
type Options struct {
	// Smallest replaces the plan's smallest effect worth knowing, of all metrics,
	// as a ratio: 0.02 = ±2 %. 0 = as the plan says.
	Smallest float64
	// Notes explain the codes that samples are marked with, as bench.NotesOf collects
	// them from all workloads. A code without a note is shown as it is.
	Notes []bench.Note
	// Running says that the run is under way, and not interrupted: nothing is claimed about it,
	// because this is a look that nobody counts.
	Running bool
	// Singles asks for the single values behind the numbers: CellResult.Values, Comparison.Changes,
	// Spectra and Curves.
	Singles bool
}

// A Result is what one run says.
type Result struct {
	Header      *bench.Header // with the limits of the last extension
	Resumptions []bench.Resumption
	End         *bench.End // nil where the run is incomplete
	Running     bool       // it is under way; what it says can change
	// Looks is which look this is: 1, and one more each time that the run was extended.
	Looks int
	// LookLevel is what its tests may spend of the 5 % that all looks have together.
	LookLevel float64

	Blocks int // complete blocks with at least one successful trial, without warm-up
	// BlockNumbers are the blocks with at least one successful trial, in order of execution.
	BlockNumbers []int
	Trials       Trials        // by outcome
	Wall         time.Duration // from the first to the last trial, without the time between interruption and resumption
	BlockTime    time.Duration // how long a block took, with what lies between its trials; 0 without trials

	Metrics   []MetricResult // the primary ones, then the details, each in the run's order
	Reasons   []Reason       // by cell, the clearest first
	Failures  []Failure      // by cell
	DataPaths []DataPath     // by cell, without cells that have neither data nor a client
	// Applied is, by cell of the plan, what the engine applied in its first successful trial; nil without one.
	Applied   []*bench.Applied
	Spectra   []Spectrum      // percentiles of single operations, by metric and condition
	Levels    []Level         // of cells that took turns
	TurnCosts []TurnCost      // by cell
	Curves    []Curve         // single operations one after the other, by metric and condition
	Warnings  []bench.Warning // those of the header first
	Trust     Trust
}

// Incomplete reports whether the run was never finished.
func (r *Result) Incomplete() bool { return r.End == nil }

// A DataPath is how a client reached a cell and where the cell kept its data, as read
// back in the first successful trial.
type DataPath struct {
	Cell int      // index in the plan
	Path []string // what a packet of the client passed; empty without a client
	Data string   // the storage under DataDir; empty without one
}

// firstApplied finds what was applied to each cell.
func firstApplied(run *bench.Run) []*bench.Applied {
	found := make([]*bench.Applied, len(run.Header.Plan.Cells))
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Outcome == bench.OK && found[s.Trial.Cell] == nil {
			found[s.Trial.Cell] = s.Applied
		}
	}
	return found
}

// dataPaths finds the way of each cell. A control has that of its baseline, so it is
// left out.
func dataPaths(run *bench.Run, applied []*bench.Applied) []DataPath {
	var all []DataPath
	for cell, a := range applied {
		if a != nil && !run.Header.Plan.Cells[cell].Control && (len(a.Path) > 0 || a.Data != "") {
			all = append(all, DataPath{cell, a.Path, a.Data})
		}
	}
	return all
}

// Trials counts trials by outcome.
type Trials struct {
	OK, Failed, TimedOut, Canceled, Skipped, Unsupported int
	Warmup                                               int // warm-up trials that began; they are counted nowhere else
}

// A MetricResult is what a run says about one metric.
type MetricResult struct {
	Metric bench.Metric // its Role is the one that it has in this plan
	// Asked is the smallest effect worth knowing that the user asked for, as a ratio:
	// 0.05 = ±5 %; 0 = none, and each condition's noise decides.
	Asked      float64
	Conditions []ConditionResult
	// Summary compares over all conditions: each block is replaced by its mean over
	// the conditions. It is nil if there is only one condition. Its cells have no
	// Value, and their index is that of the first condition.
	Summary *ConditionResult
}

// A ConditionResult is one table: cells and the baseline that they are compared with.
type ConditionResult struct {
	Condition string
	Baseline  int         // index in Plan.Cells
	Control   int         // index in Plan.Cells; -1 = none
	Noise     *Comparison // control against baseline; nil without a control
	// Unreliable says that the control differs from the baseline, though both are
	// the same thing: only effects can be trusted that are many times larger.
	Unreliable bool
	// Doubtful is the effect up to which, up or down, none can be trusted: as a ratio above 1, or in the
	// metric's unit for differences. 0 unless Unreliable.
	Doubtful float64
	// Smallest is the smallest effect worth knowing: as a ratio, 0.01 = ±1 %,
	// or in the metric's unit if its Scale is Difference.
	Smallest float64
	// Noisy says that Smallest is the noise, and that the noise is too large to
	// call anything the same.
	Noisy bool
	// Spread says how much the baseline's values vary between blocks: half of the
	// distance between their quartiles, as a ratio (0.03 = ±3 %), or in the metric's
	// unit if its Scale is Difference. It is 0 if all containers were made on the run's
	// own host. If a network lies between client and server, it shows how large a
	// difference is for someone who uses that network once.
	Spread float64
	Cells  []CellResult // in the plan's order, with the baseline and without the control
	// Levels are those of the plan's conditions, such as clients = 8; empty without conditions.
	Levels []bench.Label
	// ControlValues are the control's, as CellResult.Values; nil without a control.
	ControlValues []float64
}

// countUnreliable counts the verdicts that are unreliable, and the others.
func (r *ConditionResult) countUnreliable() (unreliable, others int) {
	for _, c := range r.Cells {
		switch {
		case c.Comparison == nil || c.Comparison.Verdict == NotCompared:
		case c.Comparison.Verdict == Unreliable:
			unreliable++
		default:
			others++
		}
	}
	return unreliable, others
}

// A CellResult is one row of a table.
type CellResult struct {
	Cell   int // index in Plan.Cells
	Name   string
	N      int // successful trials with this metric
	Failed int // trials that failed, timed out or were skipped
	// Unsupported says that the engine cannot do what the cell asks for.
	Unsupported bool
	// Value is the median of the trials' values; NaN without values.
	Value float64
	// Low and High bound the median; NaN with fewer than 6 values.
	Low, High float64
	// Comparison with the baseline; nil for the baseline itself.
	Comparison *Comparison
	// Values are those of the trials, parallel to Result.BlockNumbers; NaN = none. It is nil over
	// all conditions, of details, and unless Options.Singles asks for it.
	Values []float64
}

// A Comparison is the paired effect of one cell against its baseline.
type Comparison struct {
	Scale bench.Scale // Ratio: 1 = no difference; Difference: 0 in the metric's unit
	Pairs int         // blocks in which both have a value
	// Estimate is the Hodges–Lehmann estimate; NaN without pairs.
	Estimate float64
	// Low and High are the plain interval, not adjusted for the number of
	// comparisons; NaN unless HasInterval.
	Low, High   float64
	HasInterval bool
	Level       float64 // confidence level of the interval, at least 0.95; 0 without one
	P           float64 // two-sided; NaN without pairs
	Adjusted    float64 // P after Holm's adjustment in its family
	// Alpha is what Adjusted is compared with: the test rejects below it. It is what the tests of the last
	// look may spend, 0.05 of reasons and of runs.
	Alpha   float64
	Verdict Verdict
	// Blocks estimates how many blocks in total would settle an unclear comparison;
	// 0 if the verdict is not unclear, or if it is unknown.
	Blocks int
	// Extended is the same where this run is extended: the next look has a lower level.
	Extended int
	// Detectable is the smallest difference that such a run finds in four of five cases, and that is
	// beyond the smallest effect worth knowing: as a ratio above 1, or in the metric's unit for
	// differences. 0 where it is unknown, and where no difference could be confirmed.
	Detectable float64
	// Interrupted says that turns change what is measured, so that this compares the uninterrupted
	// stretches of the trials.
	Interrupted bool
	// Shift is the same effect in the metric's unit, from the differences within the
	// blocks; nil where Scale is Difference, over all conditions, and without pairs.
	Shift *Shift
	// Changes are the pairs that Estimate is of, parallel to Result.BlockNumbers; NaN = no pair. It is
	// nil where Values are.
	Changes []float64
}

// A Shift is by how much a cell has more than its baseline, in the metric's unit.
type Shift struct {
	Estimate  float64 // Hodges–Lehmann
	Low, High float64 // of the plain interval at the level of the Comparison; NaN where that has none
}

// HalfWidth says how precise the estimate is: as a ratio (0.03 = ±3 %), or in
// the metric's unit for differences. It is +Inf without an interval.
func (c *Comparison) HalfWidth() float64 {
	switch {
	case !c.HasInterval:
		return math.Inf(1)
	case c.Scale == bench.Difference:
		return (c.High - c.Low) / 2
	default:
		return math.Sqrt(c.High/c.Low) - 1
	}
}

// inside reports whether the whole interval is within ±delta of no difference.
func (c *Comparison) inside(delta float64) bool {
	switch {
	case !c.HasInterval:
		return false
	case c.Scale == bench.Difference:
		return c.Low >= -delta && c.High <= delta
	default:
		return c.Low >= 1/(1+delta) && c.High <= 1+delta
	}
}

// sign is 1 if the cell has more than the baseline, -1 if it has less, 0 if neither.
func (c *Comparison) sign() int {
	none := 1.0
	if c.Scale == bench.Difference {
		none = 0
	}
	switch {
	case c.Estimate > none:
		return 1
	case c.Estimate < none:
		return -1
	}
	return 0
}

// A Verdict is the result of a comparison.
type Verdict string

// The verdicts.
const (
	Worse      Verdict = "worse"
	Better     Verdict = "better"
	Different  Verdict = "different"  // for a metric where neither more nor less is better
	Same       Verdict = "same"       // any difference is too small to be worth knowing
	Unclear    Verdict = "unclear"    // the run cannot tell
	Unreliable Verdict = "unreliable" // the control differs, and this effect is not far beyond that

	NotCompared Verdict = "not-compared" // no block has two values that the scale can compare
	TooFewRuns  Verdict = "too-few-runs" // too few runs are compared to know the effect of a run itself
)

// A Failure is a group of trials that failed, or in which one part failed.
type Failure struct {
	Cell      int    // index in Plan.Cells
	Part      string // the part of a survey that failed while the trials succeeded; otherwise empty
	Outcome   bench.Outcome
	Operation string // the operation that failed; empty if it was none
	Count     int
	Warmup    int    // how many of Count were warm-up trials
	Reason    string // of the first of them
}

// Analyze analyses one run, complete or not, and does not change it. The error
// says why the run cannot be read.
func Analyze(run *bench.Run, opt Options) (*Result, error) {
	run = run.Timed()
	t, err := newTable(run)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.Header.ID, err)
	}
	work := t.measure(opt)
	adjust(work, t.look)
	applied := firstApplied(run)
	r := &Result{
		Header:      &t.run.Header,
		Resumptions: run.Resumptions,
		End:         run.End,
		Running:     opt.Running,
		Looks:       int(t.look),
		LookLevel:   t.look.alpha(),
		Blocks:      t.completeBlocks(),
		Trials:      t.trials,
		Wall:        wall(run),
		BlockTime:   BlockTime(run),
		Failures:    t.failures(),
		DataPaths:   dataPaths(run, applied),
		Applied:     applied,
		Levels:      Levels(run),
		TurnCosts:   TurnCosts(run),

		BlockNumbers: t.blocks,
	}
	if opt.Singles {
		keepSingles(work)
		r.Spectra, r.Curves = t.spectra(), t.curves()
	}
	for _, w := range work {
		w.decide()
		r.Metrics = append(r.Metrics, w.result)
	}
	r.Reasons = t.reasons(work)
	notes := slices.Concat(opt.Notes, bench.Notes())
	r.Warnings = slices.Concat(run.Header.Warnings, resumed(run), seen(run), warnings(t, r, work, notes))
	r.Trust = trust(t, r, work, notes)
	return r, nil
}

// resumed lists the warnings of a run's resumptions, without what was told when the run began: its later trials
// were measured under other conditions than the first ones.
func resumed(run *bench.Run) (all []bench.Warning) {
	told := slices.Clone(run.Header.Warnings)
	for _, again := range run.Resumptions {
		for _, w := range again.Warnings {
			if slices.ContainsFunc(told, func(o bench.Warning) bool { return o.Code == w.Code && o.Text == w.Text }) {
				continue
			}
			told = append(told, w)
			w.Text = "when the run was resumed: " + w.Text
			all = append(all, w)
		}
	}
	return all
}

// seen lists the warnings of a run's ends: of the last, and of those after which it was extended.
func seen(run *bench.Run) (all []bench.Warning) {
	for _, again := range run.Resumptions {
		if e := again.Extension; e != nil {
			all = append(all, e.After.Warnings...)
		}
	}
	if run.End != nil {
		all = append(all, run.End.Warnings...)
	}
	return all
}

// BlockTime is how long a block of a run took, with what lies between its trials; 0 without trials. Warm-up blocks and
// those that were not completed took their time, too.
func BlockTime(run *bench.Run) time.Duration {
	begun := make(map[int]bool)
	for i := range run.Samples {
		begun[run.Samples[i].Trial.Block] = true
	}
	return wall(run) / time.Duration(max(1, len(begun)))
}

// wall sums the time from the first to the last trial between resumptions.
func wall(run *bench.Run) time.Duration {
	var sum time.Duration
	rest := run.Samples
	cut := func(n int) {
		if n > 0 {
			sum += max(0, endOf(rest[:n]).Sub(rest[0].Began))
			rest = rest[n:]
		}
	}
	for _, again := range run.Resumptions {
		cut(max(0, slices.IndexFunc(rest, func(s bench.Sample) bool { return s.Trial.Seq >= again.Seq })))
	}
	cut(len(rest))
	return sum
}

// endOf is when the last of some trials ended. Trials that take turns in a block all begin at its beginning, and each has
// only its own time.
func endOf(all []bench.Sample) time.Time {
	last := all[len(all)-1]
	i := slices.IndexFunc(all, func(s bench.Sample) bool { return s.Trial.Block == last.Trial.Block })
	block := all[i:]
	if len(block) < 2 || !block[1].Began.Before(block[0].Began.Add(block[0].Elapsed)) {
		return last.Began.Add(last.Elapsed)
	}
	end := block[0].Began
	for _, s := range block {
		end = end.Add(s.Elapsed)
	}
	return end
}
