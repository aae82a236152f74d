// Package analysis turns a stored run into comparisons, verdicts, reasons and
// warnings, exactly as docs/method.md says. It works from the run alone: it
// reads no clock, no file and no machine, and the same run gives the same
// result everywhere.
//
// The unit is the trial. A cell is compared with the baseline of its condition
// block by block, so that whatever the machine did slowly cancels out.
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
	// smallest is the effect that is worth knowing where the plan says nothing
	// and the machine is quieter than that.
	smallest = 0.01
	// noisy is the noise floor above which nothing is called the same, unless
	// the plan says what is worth knowing.
	noisy = 0.10
)

// Options change how a run is analysed. The zero value is right.
type Options struct {
	// Smallest replaces the plan's smallest effect worth knowing, of all metrics,
	// as a ratio: 0.02 = ±2 %. 0 = as the plan says.
	Smallest float64
	// Notes are the words for what samples are marked with, as bench.NotesOf lists them
	// of the workloads that there are. A mark without words is told by its code.
	Notes []bench.Note
}

// A Result is what one run says.
type Result struct {
	Header      *bench.Header // with the limits of the last extension
	Resumptions []bench.Resumption
	End         *bench.End // nil where the run is incomplete
	// Looks is which look this is: 1, and one more each time that the run was extended.
	Looks int
	// LookLevel is what its tests may spend of the 5 % that all looks have together.
	LookLevel float64

	Blocks int           // that count: warm-up apart, gone through, with one successful trial at least
	Trials Trials        // by outcome
	Wall   time.Duration // from first to last trial, without the time between an interruption and its resumption

	Metrics  []MetricResult  // the primary ones, then the details, each in the run's order
	Reasons  []Reason        // by cell, the clearest first
	Failures []Failure       // by cell
	Ways     []Way           // by cell, those without data and client left out
	Warnings []bench.Warning // those of the header first
}

// Incomplete reports whether the run was never finished.
func (r *Result) Incomplete() bool { return r.End == nil }

// A Way is how a cell was reached and what its data lay on, as it was read back
// in its first successful trial.
type Way struct {
	Cell int      // index in the plan
	Path []string // what a packet of the client passed; empty where there was none
	Data string   // what DataDir lay on; empty where there was none
}

// ways finds them; that of a control is its baseline's.
func ways(run *bench.Run) []Way {
	found := make([]*bench.Applied, len(run.Header.Plan.Cells))
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Outcome == bench.OK && found[s.Trial.Cell] == nil {
			found[s.Trial.Cell] = s.Applied
		}
	}
	var all []Way
	for cell, a := range found {
		if a != nil && !run.Header.Plan.Cells[cell].Control && (len(a.Path) > 0 || a.Data != "") {
			all = append(all, Way{cell, a.Path, a.Data})
		}
	}
	return all
}

// Trials counts trials by outcome.
type Trials struct {
	OK, Failed, TimedOut, Canceled, Skipped, Unsupported int
	Warmup                                               int // trials of warm-up blocks that were begun, counted nowhere else
}

// A MetricResult is what a run says about one metric.
type MetricResult struct {
	Metric bench.Metric // its Role is that in this plan
	// Asked is the smallest effect worth knowing that was asked for, as a ratio:
	// 0.05 = ±5 %; 0 = none was, and each condition's noise decides.
	Asked      float64
	Conditions []ConditionResult
	// Summary compares over all conditions: the mean of each block over the
	// conditions takes the place of the block. Nil where there is only one.
	// Its cells have no Value, and the index that they have in the first condition.
	Summary *ConditionResult
}

// A ConditionResult is one table: cells and the baseline they are compared with.
type ConditionResult struct {
	Condition string
	Baseline  int         // index in Plan.Cells
	Control   int         // index in Plan.Cells; -1 where there is none
	Noise     *Comparison // control against baseline; nil where there is no control
	// Unreliable says that the control differs from the baseline, which is the
	// same thing: then no verdict here can be trusted.
	Unreliable bool
	// Smallest is the smallest effect worth knowing: as a ratio, 0.01 = ±1 %,
	// or in the metric's unit where its Scale is Difference.
	Smallest float64
	// Noisy says that Smallest is the noise, and that the noise is too large for
	// anything to be called the same.
	Noisy bool
	// Spread is by how much the baseline's values differ from block to block: half
	// of the distance between their quartiles, as a ratio (0.03 = ±3 %), or in the
	// metric's unit where its Scale is Difference. It is 0 where all containers
	// were made on the run's own host: with a network between client and server, it
	// says what a difference between cells is worth to who meets that network once.
	Spread float64
	Cells  []CellResult // in the plan's order, the baseline among them and the control not
}

// A CellResult is one row of a table.
type CellResult struct {
	Cell   int // index in Plan.Cells
	Name   string
	N      int // successful trials with this metric
	Failed int // trials that did not succeed
	// Unsupported says that the engine cannot do what the cell asks for.
	Unsupported bool
	// Value is the median of the trials' values; NaN where there are none.
	Value float64
	// Low and High bound the median; NaN where there are fewer than 6 values.
	Low, High float64
	// Comparison with the baseline; nil for the baseline itself.
	Comparison *Comparison
}

// A Comparison is the paired effect of one cell against its baseline.
type Comparison struct {
	Scale bench.Scale // Ratio: 1 = no difference; Difference: 0 in the metric's unit
	Pairs int         // blocks in which both have a value
	// Estimate is the Hodges–Lehmann estimate; NaN where there are no pairs.
	Estimate float64
	// Low and High are the plain interval, not adjusted for the number of
	// comparisons; NaN unless HasInterval.
	Low, High   float64
	HasInterval bool
	Level       float64 // that the interval has, at least 0.95; 0 without one
	P           float64 // two-sided; NaN where there are no pairs
	Adjusted    float64 // P after Holm's adjustment in its family
	Verdict     Verdict
	// Blocks estimates how many blocks, in all, would settle what is unclear;
	// 0 where the verdict is another one or nothing is known.
	Blocks int
	// Extended is the same where this run is extended: the next look has a lower level.
	Extended int
}

// HalfWidth says how precise the estimate is: as a ratio (0.03 = ±3 %), or in
// the metric's unit for differences. It is +Inf where there is no interval.
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

// sign is 1 where the cell has more than the baseline, -1 where it has less.
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

// A Verdict is what a comparison comes to.
type Verdict string

// The verdicts.
const (
	Worse      Verdict = "worse"
	Better     Verdict = "better"
	Different  Verdict = "different"  // of a metric that is neither better nor worse either way
	Same       Verdict = "same"       // any difference is too small to be worth knowing
	Unclear    Verdict = "unclear"    // the run cannot tell
	Unreliable Verdict = "unreliable" // the control differs, so the test itself cannot be trusted

	NotCompared Verdict = "not-compared" // no block has a value of both that the scale can compare
	TooFewRuns  Verdict = "too-few-runs" // runs are compared, and so few cannot tell what a run by itself does
)

// A Failure is a group of trials that did not succeed, or of which a part did not.
type Failure struct {
	Cell      int    // index in Plan.Cells
	Part      string // of a survey, where the trials succeeded but for it; empty else
	Outcome   bench.Outcome
	Operation string // which operation failed; empty where none did
	Count     int
	Warmup    int    // how many of Count were warm-up trials
	Reason    string // of the first of them
}

// Analyze analyses one run, also one that is incomplete. The run is not
// changed. The error says what makes it unreadable.
func Analyze(run *bench.Run, opt Options) (*Result, error) {
	t, err := newTable(run)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.Header.ID, err)
	}
	work := t.measure(opt)
	adjust(work)
	r := &Result{
		Header:      &t.run.Header,
		Resumptions: run.Resumptions,
		End:         run.End,
		Looks:       int(t.look),
		LookLevel:   t.look.alpha(),
		Blocks:      t.whole(),
		Trials:      t.trials,
		Wall:        wall(run),
		Failures:    t.failures(),
		Ways:        ways(run),
	}
	for _, w := range work {
		w.judge()
		r.Metrics = append(r.Metrics, w.result)
	}
	r.Reasons = t.reasons(work)
	r.Warnings = slices.Concat(run.Header.Warnings, warnings(t, r, work, slices.Concat(opt.Notes, bench.Notes())))
	return r, nil
}

// wall sums the time from the first to the last trial between resumptions.
func wall(run *bench.Run) time.Duration {
	var sum time.Duration
	rest := run.Samples
	cut := func(n int) {
		if n > 0 {
			first, last := &rest[0], &rest[n-1]
			sum += max(0, last.Began.Add(last.Elapsed).Sub(first.Began))
			rest = rest[n:]
		}
	}
	for _, again := range run.Resumptions {
		cut(max(0, slices.IndexFunc(rest, func(s bench.Sample) bool { return s.Trial.Seq >= again.Seq })))
	}
	cut(len(rest))
	return sum
}
