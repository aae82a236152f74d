// Package report turns an analysis into a Document: one view model, which the
// packages below it render as text, JSON, CSV and Markdown. Renderers compute
// no statistics and read no clock: the same Document gives the same bytes.
//
// The exported data of a Document are its JSON form, which docs/report-format.md
// specifies. Its Head, Tables, Notes and so on are the same said in words and
// already formatted, for people.
package report

import (
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
)

// Version is the version of the JSON form. It grows when a field changes its
// meaning or goes away; new fields do not change it.
const Version = 1

// A Kind says what a Document is about.
type Kind string

// The kinds of a Document.
const (
	OneRun     Kind = "run"        // cells of one run against their baseline
	Comparison Kind = "comparison" // runs against other runs
)

// A Document is everything that a report says.
type Document struct {
	Report  int      `json:"report"`  // Version
	Kind    Kind     `json:"kind"`    // what it is about
	Unit    string   `json:"unit"`    // what is one value: "trial" or, in a comparison, an analysis.Unit
	Runs    []Run    `json:"runs"`    // one, or those that are compared
	Groups  []Group  `json:"groups"`  // of a comparison; null for one run
	Metrics []Metric `json:"metrics"` // primary ones first
	Reasons []Reason `json:"reasons"` // counters that differ; a correlation, not a proof of a cause
	// trials, or parts of them, that did not succeed; they are in no value
	Failed []Failure `json:"failures"`
	// how cells were reached and what their data lay on; those without either left out
	DataPaths   []DataPath   `json:"ways"`
	Levels      []Level      `json:"levels,omitempty"` // where the noise of cells that took turns comes from
	TurnCosts   []TurnCost   `json:"turn_costs,omitempty"`
	Settings    []Applied    `json:"applied"`     // what the engines applied; empty in a comparison
	Warned      []Warning    `json:"warnings"`    // what the reader must know
	Differences []Difference `json:"differences"` // what is not the same in all runs of a comparison
	Spectra     []Spectrum   `json:"spectra"`     // percentiles of single operations
	Curves      []Curve      `json:"curves"`      // single operations one after the other
	// Timelines say where the time of starts goes; nil unless trials were traced for that.
	Timelines *Timelines `json:"timelines,omitempty"`
	Trust     *Trust     `json:"trust,omitempty"`
	Next      []Step     `json:"next,omitempty"` // at most two
	View      `json:"-"`
}

// A Run is one of the runs that a report is about.
type Run struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"` // that its user gave it; empty where it has none
	Tool       string    `json:"tool"`
	Began      time.Time `json:"began"`
	Experiment string    `json:"experiment"`
	Workload   string    `json:"workload"`
	Seed       uint64    `json:"seed,string"`
	Stopped    string    `json:"stopped"` // a bench.StopReason, "incomplete", or "running"
	Blocks     int       `json:"blocks"`  // that count
	// BlockNumbers are the blocks that values and changes are of, in order of execution; empty in a comparison.
	BlockNumbers []int   `json:"block_numbers"`
	Wall         float64 `json:"wall_seconds"` // from first to last trial, pauses left out
	Precision    float64 `json:"precision"`    // that was asked for, as a ratio; 0 = none
	// the metrics of which another one was asked for, as in the record format
	Margins     []bench.Margin `json:"margins"`
	Trials      Trials         `json:"trials"`      // by outcome
	Resumptions int            `json:"resumptions"` // times that it was taken up again
	// 1, and one more each time that it was extended after it had ended
	Looks     int                `json:"looks"`
	LookLevel float64            `json:"look_level"` // what the tests of its last look may spend of 5 %: 0.04 = 4 %
	Host      bench.HostFacts    `json:"host"`       // as in the record format
	Engines   []bench.EngineInfo `json:"engines"`    // as in the record format
	Labels    []bench.Label      `json:"labels"`     // the user's own
	Notes     []bench.Remark     `json:"notes"`      // that people wrote on it
	// of the host that measured in every cell, in place of what is built in: "fio" or, of a part, "disk fio"
	Programs []string        `json:"programs"`
	Overhead *bench.Overhead `json:"overhead"` // of tare itself; null where the run is incomplete
	Plan     Plan            `json:"plan"`
	imported bool
	on       []string // the hosts that measured together; nil for a run of one machine
}

// Trials counts trials by outcome.
type Trials struct {
	OK       int `json:"ok"`
	Failed   int `json:"failed"`
	TimedOut int `json:"timed_out"`
	Canceled int `json:"canceled"`
	Skipped  int `json:"skipped"`
	// Unsupported trials were never begun, because their engine cannot do them.
	Unsupported int `json:"unsupported"`
	Warmup      int `json:"warmup"` // that were begun, counted nowhere else
}

// A Group is runs that belong together in a comparison.
type Group struct {
	Name string   `json:"name"`
	Runs []string `json:"runs"` // IDs
}

// GroupOf is the name of the group of a run in a comparison; empty in the report of one run.
func (d *Document) GroupOf(id string) string {
	for _, g := range d.Groups {
		if slices.Contains(g.Runs, id) {
			return g.Name
		}
	}
	return ""
}

// A Metric is one metric and all that is said about it.
type Metric struct {
	Name   string          `json:"name"`
	Title  string          `json:"title"`
	Unit   string          `json:"unit"`
	Better bench.Direction `json:"better"`
	Role   bench.Role      `json:"role"` // in this plan
	Scale  bench.Scale     `json:"scale"`
	Doc    string          `json:"doc"`
	// the smallest difference that matters, if given, as a ratio: 0.05 = ±5 %; 0 = not given
	Smallest   float64     `json:"smallest"`
	Conditions []Condition `json:"conditions"`
	Summary    *Condition  `json:"summary"` // over all conditions; null where there is only one, and in a comparison
}

// A Condition is the values under one condition.
type Condition struct {
	Condition  string  `json:"condition"` // empty where there is none
	Baseline   string  `json:"baseline"`  // a cell, or in a comparison a group
	Noise      *Effect `json:"noise"`     // control against baseline; null where there is none
	Unreliable bool    `json:"unreliable"`
	// Spread is by how much the blocks of the baseline differ, as ± half of the
	// distance between the quartiles: a ratio, 0.03 = ±3 %, or in the unit for
	// differences; null unless containers were made on another machine.
	Spread *float64 `json:"spread"`
	Rows   []Row    `json:"rows"`
	// Levels are those of the plan's conditions, such as clients = 8.
	Levels []ConditionLevel `json:"levels"`
	// Control is the control's values, as Row.Values; null where there is none.
	Control Numbers `json:"control"`
}

// A ConditionLevel is what one condition of the plan is, such as size = 64KiB.
type ConditionLevel struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	// Number is the level as a number, in bytes or seconds where it has such a unit: 65536; nil if it is none.
	Number *float64 `json:"number,omitempty"`
}

// A Row is the values of one cell, in a comparison of one cell in one group.
type Row struct {
	Cell   string `json:"cell"`
	Group  string `json:"group"` // empty for one run
	N      int    `json:"n"`     // values
	Failed int    `json:"failed"`
	// Unsupported says that the engine cannot do what the cell asks for.
	Unsupported bool     `json:"unsupported"`
	Median      *float64 `json:"median"` // of the values; null where there are none
	Low         *float64 `json:"low"`    // of the 95 % interval of the median; null below 6 values
	High        *float64 `json:"high"`
	Effect      *Effect  `json:"effect"` // against the baseline; null for the baseline itself
	// Finding is what is known, in words.
	Finding *Finding `json:"finding,omitempty"`
	// InRun is there in a comparison, for all cells but the baseline of the runs.
	InRun *InRun `json:"in_run,omitempty"`
	// Values are of a primary metric: one for each of the run's block numbers or, in a comparison, for
	// each run of the group that has one. Null where there are none.
	Values Numbers `json:"values"`

	index int // of the cell in the plan
}

// InRun is what a cell differs by from the baseline of the same run, in each run of
// one group: what a run does to all of its cells alike is not in it.
type InRun struct {
	Baseline string   `json:"baseline"` // the cell
	N        int      `json:"n"`        // runs
	Median   *float64 `json:"median"`   // of the runs' effects, ratios or differences; null where there are none
	Low      *float64 `json:"low"`      // of the 95 % interval of the median; null below 6 runs
	High     *float64 `json:"high"`
	Effect   *Effect  `json:"effect"` // against the first group; null for that
}

// An Effect is a comparison with the baseline.
type Effect struct {
	Scale    bench.Scale `json:"scale"`    // "ratio": 1 is no difference; "difference": 0 is, in the metric's unit
	Pairs    int         `json:"pairs"`    // blocks with both values; 0 in a comparison
	Estimate *float64    `json:"estimate"` // Hodges–Lehmann; null without values
	Low      *float64    `json:"low"`      // of the plain interval, not adjusted; null where there is none
	High     *float64    `json:"high"`
	Level    float64     `json:"level"`    // of the interval, at least 0.95; 0 without one
	P        *float64    `json:"p"`        // two-sided; null without values
	Adjusted *float64    `json:"adjusted"` // P after Holm's adjustment
	// Alpha is what Adjusted is compared with: a difference is claimed only where Adjusted is below it.
	Alpha   float64 `json:"alpha"`
	Verdict string  `json:"verdict"` // an analysis.Verdict
	Blocks  int     `json:"blocks"`  // estimated to settle what is unclear; 0 = not known
	// Extended is the same if this run is extended, whose next look has a lower level.
	Extended int `json:"blocks_extended,omitempty"`
	// Smallest is the smallest difference that matters: a ratio, 0.01 = ±1 %, or
	// for differences in the unit; 0 where the verdict does not depend on it.
	Smallest float64 `json:"smallest"`
	// Interrupted says that turns change what is measured, so that this compares uninterrupted stretches of the trials.
	Interrupted bool `json:"interrupted,omitempty"`
	// Noisy says that Smallest is the noise, and that the noise is above 10 %: nothing is called the same.
	Noisy bool `json:"noisy,omitempty"`
	// Shift is a ratio's effect in the metric's unit, from the differences within the
	// blocks; not there for differences, over all conditions, and without pairs.
	Shift *Shift `json:"shift,omitempty"`
	// Changes are of a primary metric of one run: the pair that each block gives, as Estimate is.
	Changes Numbers `json:"changes"`
	// Detectable is the smallest difference beyond Smallest that such a run confirms in four of
	// five cases: a ratio above 1, or in the unit; null where it is not known.
	Detectable *float64 `json:"detectable"`

	needed int // Blocks or, where the run has ended, Extended
}

// A Shift is by how much a cell has more than its baseline, in the metric's unit.
type Shift struct {
	Estimate float64  `json:"estimate"` // Hodges–Lehmann
	Low      *float64 `json:"low"`      // of the plain interval; null where there is none
	High     *float64 `json:"high"`
}

// Trust says how far the findings can be trusted as a whole.
type Trust struct {
	Level analysis.TrustLevel `json:"level"` // "high", "medium", "low" or, where nothing is compared, "none"
	Codes []string            `json:"codes"` // of the warnings that lower it, the worst first
	Pairs int                 `json:"pairs"` // blocks of the comparison that has most
	// Needed is the blocks that a verdict needs, 0 where nothing is compared; in a comparison, the
	// units of each group, 0 where there are enough.
	Needed int `json:"needed"`
	// Extended is what Needed becomes if the run is extended, whose next look has a lower level.
	Extended int `json:"needed_extended"`
	// Reason is the first of Codes in words; empty without one.
	Reason string `json:"reason"`
	// Undecided is how many of the comparisons with an effect more blocks could decide, Compared how many there
	// are. Both are 0 in a comparison of runs.
	Undecided int `json:"undecided"`
	Compared  int `json:"compared"`
	// Settle is from and to how many blocks, as estimated, the undecided comparisons need; null
	// where there are none, or the estimate is not known.
	Settle []int `json:"settle"`
	// SettleBudgets is how much more time these blocks take, in the form that --budget takes; null where Settle
	// is, where the run cannot be extended, or where the time of a block is not known.
	SettleBudgets []string `json:"settle_budgets"`

	needs []int // blocks of each undecided comparison, as far as they are estimated
}

// A Step is a command to go on with, and what it gives.
type Step struct {
	Command string `json:"command"`
	Gives   string `json:"gives"`
}

// A Reason is a counter that differs between a cell and its baseline.
type Reason struct {
	Metric    string  `json:"metric"`
	Title     string  `json:"title"`
	Unit      string  `json:"unit"`
	Cell      string  `json:"cell"`
	Condition string  `json:"condition"`
	Baseline  float64 `json:"baseline"` // median of the baseline's trials
	Value     float64 `json:"value"`    // median of the cell's trials
	Effect    Effect  `json:"effect"`
	// For are the primary metrics that it is a reason for, at least one.
	For []Explained `json:"for"`
}

// An Explained is a metric that differs, and how a reason goes with it.
type Explained struct {
	Metric      string  `json:"metric"`
	Correlation float64 `json:"together"` // rank correlation over blocks, −1 to 1
}

// Applied is what the engine applied to the containers of one cell, read back in its first
// successful trial.
type Applied struct {
	Cell      string        `json:"cell"`
	Condition string        `json:"condition"`
	Applied   bench.Applied `json:"applied"` // as in the record format
}

// A DataPath is how a cell was reached and what its data lay on, read back from the kernel.
type DataPath struct {
	Cell      string   `json:"cell"`
	Condition string   `json:"condition"`
	Path      []string `json:"path"` // what a packet of the client passed; empty where there was none
	Data      string   `json:"data"` // the kind and the file system; empty where there was none
}

// A Failure is trials of one cell that did not succeed, or of which a part did not.
type Failure struct {
	Cell      string        `json:"cell"`
	Condition string        `json:"condition"`
	Part      string        `json:"part,omitempty"` // of a survey; empty where all of the trial failed
	Outcome   bench.Outcome `json:"outcome"`
	Operation string        `json:"operation"`
	Count     int           `json:"count"`
	Warmup    int           `json:"warmup"` // of them, warm-up trials
	Reason    string        `json:"reason"` // of the first
}

// A Warning is a warning, with names in place of indices.
type Warning struct {
	Code   string   `json:"code"`
	Text   string   `json:"text"`
	Hint   string   `json:"hint"`
	Cells  []string `json:"cells"`  // empty = the whole run
	Metric string   `json:"metric"` // empty = all
	Also   []string `json:"also"`   // the other metrics that it is about
}

// A Difference is something that is not the same in all runs of a comparison.
type Difference struct {
	What   string     `json:"what"`
	Values []string   `json:"values"`
	Groups [][]string `json:"groups"` // of three or more, those that have each value; empty where one has several
}

// View are the Document as people read it. Nothing in them can move the
// cursor of a terminal or change its colour.
type View struct {
	Screen       Screen     // what people read first
	Head         [][]string // lines of parts
	Tables       []Table    // primary metrics
	Answers      []Line     // the verdict on each primary metric as a sentence; nil where the tables say it better
	Shifts       []Line     // what cells have more or less of each primary metric, in its unit
	Legend       string     // how to read them
	Details      []Table    // the other metrics in short
	DetailTables []Table    // the same in full, a table each: what a terminal shows if it is asked to
	Reasons      []Line
	Failures     []Line
	Canceled     []Line // trials that the user ended early
	DataPaths    []Line
	Levels       []Line
	Turns        []Line  // what they have cost
	Applied      []Line  // what the engines applied
	Machine      []Line  // what the head leaves out of the machine, and the settings of the engines
	Plan         []Line  // what was fixed before the first trial
	Absent       []Line  // cells that their engine cannot do, and why
	Written      []Line  // on the run, by people
	Percentiles  []Table // of single operations, by metric and condition
	Timelines    []Table // where the time goes: the differences, then the cells
	Notes        []Note
	Trailer      []string // set by the caller: where the run was saved, what to do next
}

// A Screen is what people read first: what is known, in one table or, under several
// conditions of a run, one for each metric, and how far to trust it.
type Screen struct {
	Title   string
	Remarks []string   // what its user called the run, where else it was, how often it was extended
	Sides   [][]string // parts of what is said about each group of a comparison
	Tables  []Table
	Trust   string
}

// A Table is text in columns.
type Table struct {
	Title       string
	Subtitle    string // what holds for the whole table
	Marks       []int  // of notes
	Columns     []Column
	HasHeadings bool // the columns' names say something that is not obvious
	Groups      []RowGroup
}

// A Column is one column of a Table.
type Column struct {
	Name     string
	Right    bool // numbers
	Marks    []int
	Distance float64 // how far its cell is from the baseline, where not all columns are shown
}

// A RowGroup is rows under one heading.
type RowGroup struct {
	Title string // empty where there is only one
	Lines []TableRow
}

// A TableRow is one line of a Table.
type TableRow struct {
	Cells []string // parallel to Columns
	Tone  Tone     // of the verdict, the last cell
	Tones []Tone   // of each cell, where they have one each; nil where only the last has
	Marks []int    // of notes
	Bar   *Bar     // nil where there is nothing to draw
	// Distance is how far what it shows is from the baseline, where not all rows are shown.
	Distance float64
}

// A Tone is how a verdict is meant.
type Tone int

// The tones.
const (
	Plain Tone = iota
	Good
	Bad
	Uncertain
)

// A Bar is an interval on a logarithmic axis from 0 to 1 that all rows of a
// table share.
type Bar struct {
	One           float64 // where no difference is
	Low, At, High float64
}

// A Line is a name and what is said about it.
type Line struct {
	Name string
	Text []string // items, separated by commas where they fit on one line
}

// A Note is a warning in words.
type Note struct {
	Mark int // that refers to it in the tables; 0 where none does
	Text string
	Hint string
}
