package bench

import (
	"slices"
	"time"
)

// A Plan says what to compare and how much evidence to collect. It is plain
// data: the same Plan gives the same trials in the same order on every
// machine. Nothing in it depends on what is installed here.
type Plan struct {
	Name     string   `json:"name"`
	Doc      string   `json:"doc,omitempty"`
	Workload string   `json:"workload"`
	Factors  []Factor `json:"factors,omitempty"` // in the order of Cell.Levels
	// Cells are what is compared; at least one. Trials refer to cells by index.
	// In each condition exactly one cell is the baseline, and at most one is the control.
	Cells []Cell `json:"cells"`

	Seed      uint64        `json:"seed,string"`         // decides the order within each block
	Warmup    int           `json:"warmup"`              // blocks run first, stored, never analysed; ≥ 0
	MinBlocks int           `json:"min_blocks"`          // never stop on precision before this many; ≥ 1
	MaxBlocks int           `json:"max_blocks"`          // stop here at the latest; ≥ MinBlocks
	Precision float64       `json:"precision,omitempty"` // stop when every primary comparison's half-width is at or under this ratio, 0.03 = ±3 %; 0 = do not
	Budget    time.Duration `json:"budget_ns,omitempty"` // stop after the block in which this is used up; 0 = none
	Smallest  float64       `json:"smallest,omitempty"`  // δ, the smallest effect worth knowing, as a ratio; 0 = the larger of 1 % and the noise floor
	TrialTime time.Duration `json:"trial_limit_ns"`      // longest time for one trial
	OpTime    time.Duration `json:"operation_limit_ns"`  // longest time for one measured operation
	Washout   time.Duration `json:"washout_limit_ns"`    // longest wait between trials for the machine to settle; 0 = do not wait
	Syscalls  bool          `json:"syscalls,omitempty"`  // count the system calls of containers, which makes every system call of the machine slower
	Hooks     []Hook        `json:"hooks,omitempty"`     // in this order
	Labels    []Label       `json:"labels,omitempty"`    // the user's own, kept with the run
	LeftOut   []string      `json:"left_out,omitempty"`  // engines that were found and, being too many for the experiment, left out
	Restrict  []string      `json:"primary,omitempty"`   // the metrics that are primary in this plan; empty = as the workload declares
	Margins   []Margin      `json:"margins,omitempty"`   // the metrics for which Smallest or Precision is another number
}

// A Margin is what a plan says of one metric in place of what it says of all.
type Margin struct {
	Metric    string  `json:"metric"`              // its name; of no other Margin of the plan
	Smallest  float64 `json:"smallest,omitempty"`  // as Plan.Smallest
	Precision float64 `json:"precision,omitempty"` // as Plan.Precision
}

// Margin returns what holds for the metric of that name.
func (p *Plan) Margin(metric string) Margin {
	if i := slices.IndexFunc(p.Margins, func(m Margin) bool { return m.Metric == metric }); i >= 0 {
		return p.Margins[i]
	}
	return Margin{Metric: metric, Smallest: p.Smallest, Precision: p.Precision}
}

// Precisions returns the least and the largest precision that is asked of the metrics
// that decide; 0 and 0 where none is.
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

// Role returns what a metric is in this plan.
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
	Name      string            `json:"name"`                // unique in its condition; made of the levels that are compared
	Condition string            `json:"condition,omitempty"` // such as "clients=8"; empty where there is no condition
	Baseline  bool              `json:"baseline,omitempty"`
	Control   bool              `json:"control,omitempty"` // the baseline once more, for the noise floor
	Engine    string            `json:"engine"`            // the name of an engine instance, such as "runc"
	Levels    []Label           `json:"levels,omitempty"`  // one for each of Plan.Factors that has a level here
	Spec      Spec              `json:"spec"`
	Params    map[string]string `json:"params,omitempty"` // options of the workload, checked against its Params
}

// FullName is the cell's name with its condition: the only one of that name in the plan.
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
	HookDropCaches    HookKind = "drop-caches"    // sync, then free page cache, dentries and inodes
	HookRestartEngine HookKind = "restart-engine" // the engine of the trial's cell; of every cell where the hook is not per trial
	HookCommand       HookKind = "command"        // Argv, on the host
)

// A Trial is one scheduled execution of one cell.
type Trial struct {
	Seq   int `json:"seq"`   // position in the run, from 0; also the order of execution
	Block int `json:"block"` // from 0; negative while warming up
	Cell  int `json:"cell"`  // index in Plan.Cells
}

// Warmup reports whether the trial is stored but never analysed.
func (t Trial) Warmup() bool { return t.Block < 0 }
