package bench

import (
	"slices"
	"time"
)

// MaxBlocks is how many measured blocks a run has at most. It bounds the schedule, which is
// stored with the run.
const MaxBlocks = 100_000

// A Plan says what to compare and how much evidence to collect. It is plain
// data: the same Plan gives the same trials in the same order on every
// machine. Nothing in it depends on what is installed here.
type Plan struct {
	Name     string   `json:"name"`
	Doc      string   `json:"doc,omitempty"`
	Workload string   `json:"workload"`
	Factors  []Factor `json:"factors,omitempty"` // in the order of Cell.Levels
	// Cells are compared; at least one. Trials refer to cells by index.
	// In each condition exactly one cell is the baseline, and at most one is the control.
	Cells []Cell `json:"cells"`

	Seed      uint64 `json:"seed,string"` // decides the order within each block
	Warmup    int    `json:"warmup"`      // blocks run first, stored, never analysed; ≥ 0
	MinBlocks int    `json:"min_blocks"`  // never stop on precision before this many; ≥ 1
	MaxBlocks int    `json:"max_blocks"`  // stop here at the latest; ≥ MinBlocks
	// Precision stops the run when the half-width of every primary comparison is at or below
	// this ratio, 0.03 = ±3 %; 0 = do not stop.
	Precision float64 `json:"precision,omitempty"`
	// Budget stops the run after the block in which this time is over; 0 = no limit.
	Budget time.Duration `json:"budget_ns,omitempty"`
	// Smallest is δ, the smallest effect worth knowing, as a ratio; 0 = the larger of 1 %
	// and the noise.
	Smallest  float64       `json:"smallest,omitempty"`
	TrialTime time.Duration `json:"trial_limit_ns"`     // longest time for one trial
	OpTime    time.Duration `json:"operation_limit_ns"` // longest time for one measured operation
	// Washout is the longest wait between trials for the machine to settle; 0 = do not wait.
	Washout time.Duration `json:"washout_limit_ns"`
	// Slice is how long the turns of cells are that take turns within a block; 0 = each trial runs
	// whole, after the one before.
	Slice time.Duration `json:"slice_ns,omitempty"`
	// Whole lists the conditions whose cells take no turns all the same.
	Whole []Whole `json:"whole,omitempty"`
	// Plants delay starts on purpose, to show that a difference would be found.
	Plants []Plant `json:"plants,omitempty"`
	// Syscalls counts the system calls of containers, which slows every system call of the
	// machine.
	Syscalls bool `json:"syscalls,omitempty"`
	// Timeline says after how many blocks a traced trial of each cell follows; 0 = none is traced.
	// See TracesAfter.
	Timeline int     `json:"timeline,omitempty"`
	Hooks    []Hook  `json:"hooks,omitempty"`  // in this order
	Labels   []Label `json:"labels,omitempty"` // the user's own, kept with the run
	// LeftOut lists engines that work here but were left out, because they are too many for
	// the experiment.
	LeftOut []string `json:"left_out,omitempty"`
	// Restrict lists the metrics that are primary in this plan; empty = as the workload
	// declares.
	Restrict []string `json:"primary,omitempty"`
	// Margins lists the metrics with a Smallest or Precision of their own.
	Margins []Margin `json:"margins,omitempty"`
}

// A Margin replaces the plan's Smallest and Precision for one metric.
type Margin struct {
	Metric    string  `json:"metric"`              // its name; unique in Plan.Margins
	Smallest  float64 `json:"smallest,omitempty"`  // as Plan.Smallest
	Precision float64 `json:"precision,omitempty"` // as Plan.Precision
}

// Whole says why the cells of a condition take no turns.
type Whole struct {
	Condition string `json:"condition,omitempty"`
	Reason    string `json:"reason"`
}

// A Plant is a difference made on purpose: in each trial of a cell, the step "start" takes longer.
type Plant struct {
	Cell  int           `json:"cell"` // index in Plan.Cells
	Delay time.Duration `json:"delay_ns"`
}

// PlantedIn is how much longer a start takes in a cell, on purpose.
func (p *Plan) PlantedIn(cell int) time.Duration {
	for _, x := range p.Plants {
		if x.Cell == cell {
			return x.Delay
		}
	}
	return 0
}

// TakesTurnsIn reports whether the cells of a condition take turns.
func (p *Plan) TakesTurnsIn(condition string) bool {
	return p.Slice > 0 && !slices.ContainsFunc(p.Whole, func(w Whole) bool { return w.Condition == condition })
}

// The usual value of Plan.Timeline, and how often cells must be traced at least.
const (
	TimelineEvery = 4
	MinTimelines  = 6 // the fewest that give an interval which means something
)

// TracesAfter reports whether a traced trial of each cell follows the block.
func (p *Plan) TracesAfter(block int) bool {
	return p.Timeline > 0 && block >= 0 && (block+1)%p.Timeline == 0
}

// TraceEvery sets Timeline to k, or to less if a run of at most MaxBlocks would otherwise have fewer than
// MinTimelines traced trials of each cell.
func (p *Plan) TraceEvery(k int) { p.Timeline = min(k, max(1, p.MaxBlocks/MinTimelines)) }

// Margin returns the Smallest and the Precision that hold for a metric.
func (p *Plan) Margin(metric string) Margin {
	if i := slices.IndexFunc(p.Margins, func(m Margin) bool { return m.Metric == metric }); i >= 0 {
		return p.Margins[i]
	}
	return Margin{Metric: metric, Smallest: p.Smallest, Precision: p.Precision}
}

// Precisions returns the smallest and the largest precision that the plan asks of
// primary metrics; 0 and 0 if it asks none.
func (p *Plan) Precisions(metrics []Metric) (least, largest float64) {
	for _, m := range metrics {
		asked := p.Margin(m.Name).Precision
		if asked <= 0 || p.Role(m) != Primary {
			continue
		}
		if least == 0 || asked < least {
			least = asked
		}
		largest = max(largest, asked)
	}
	return least, largest
}

// Role returns the role of a metric in this plan.
func (p *Plan) Role(m Metric) Role {
	switch {
	case slices.Contains(p.Restrict, m.Name):
		return Primary
	case m.Role == Primary && len(p.Restrict) > 0:
		return Detail
	default:
		return m.Role
	}
}

// A Label is one key and value.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// A Factor is something that varies in a plan, and its values.
type Factor struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
	// Condition marks a factor that is not compared but under which the
	// comparison is repeated, each time with a baseline of its own.
	Condition bool `json:"condition,omitempty"`
}

// A Cell is one combination of levels: what other tools call a variant.
type Cell struct {
	Name      string            `json:"name"`                // unique in its condition; made of the compared levels
	Condition string            `json:"condition,omitempty"` // such as "clients=8"; empty without a condition
	Baseline  bool              `json:"baseline,omitempty"`
	Control   bool              `json:"control,omitempty"` // the baseline once more, for the noise floor
	Engine    string            `json:"engine"`            // the name of an engine instance, such as "runc"
	Levels    []Label           `json:"levels,omitempty"`  // one for each of Plan.Factors that has a level here
	Spec      Spec              `json:"spec"`
	Params    map[string]string `json:"params,omitempty"` // options of the workload, checked against its Params
}

// FullName returns the cell's name with its condition, which is unique in the plan.
func (c *Cell) FullName() string {
	if c.Condition == "" {
		return c.Name
	}
	return c.Name + " " + c.Condition
}

// A Hook is something that happens before trials, outside the timed part.
type Hook struct {
	When HookTime `json:"when"`
	Do   HookKind `json:"do"`
	Argv []string `json:"argv,omitempty"` // for HookCommand; no shell
}

// A HookTime says when a Hook runs.
type HookTime string

// The times of a Hook.
const (
	BeforeRun   HookTime = "before-run"
	BeforeBlock HookTime = "before-block"
	BeforeTrial HookTime = "before-trial"
	AfterRun    HookTime = "after-run"
)

// A HookKind says what a Hook does.
type HookKind string

// The kinds of a Hook.
const (
	HookDropCaches HookKind = "drop-caches" // sync, then free page cache, dentries and inodes
	// the engine of the trial's cell; all engines if the hook is not per trial
	HookRestartEngine HookKind = "restart-engine"
	HookCommand       HookKind = "command" // Argv, on the host
)

// A Trial is one scheduled execution of one cell.
type Trial struct {
	Seq   int `json:"seq"`   // position in the run, from 0; also the order of execution
	Block int `json:"block"` // from 0; negative while warming up
	Cell  int `json:"cell"`  // index in Plan.Cells
	// Traced says that the trial is run for its Trace alone: it comes after the others of its block, and
	// its Sample has no values.
	Traced bool `json:"traced,omitempty"`
}

// Warmup reports whether the trial is stored but never analysed.
func (t Trial) Warmup() bool { return t.Block < 0 }
