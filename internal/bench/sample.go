package bench

import (
	"errors"
	"math"
	"slices"
	"time"
)

// An Outcome is how a trial ended.
type Outcome string

// The outcomes of a trial.
const (
	OK       Outcome = "ok"
	Failed   Outcome = "failed"    // an operation failed, or what was applied is not what was asked for
	TimedOut Outcome = "timed-out" // an operation or the trial met its time limit
	Canceled Outcome = "canceled"  // the user ended the trial before it was through
	Skipped  Outcome = "skipped"   // never begun, for the reason given
	// Unsupported is never begun because the engine cannot do what the cell
	// asks for: nothing went wrong, and there is nothing to measure.
	Unsupported Outcome = "unsupported"
)

// A Sample is everything that one trial produced. There is exactly one for
// each trial that was begun, also when it failed: a missing Sample is a bug, a
// failed one is data. A Sample is never averaged, trimmed or re-ordered.
type Sample struct {
	Trial     Trial
	Began     time.Time     // wall clock, UTC
	Elapsed   time.Duration // of the whole trial, untimed parts included
	Counted   time.Duration // of that, what the host's counters span: between the two looks at them; 0 = not known, or not OK
	Outcome   Outcome
	Operation string // which operation failed, where one did: a metric's name
	Reason    string // why, if Outcome is not OK; one line
	// Values are parallel to Header.Metrics; NaN where nothing was reported.
	// It is nil unless Outcome is OK: a failed operation is never a duration.
	Values []float64
	Series []Series // at most MaxSeriesValues in all; nil unless Outcome is OK
	// Distributions are of metrics with more values than Series keep; at most
	// MaxDistributions, nil unless Outcome is OK.
	Distributions []Distribution
	Trace         *Trace   // what instruments saw happen; nil where they saw nothing, or Outcome is not OK
	Applied       *Applied // what the engine applied; nil where the trial did not get that far
	Notes         []string // stable codes, such as NoteHostClock
	// Parts are those of a survey that have no value in this trial, or not all; nil
	// where there are none.
	Parts []PartOutcome
}

// A PartOutcome is what became of one part of a survey in one trial, where that is not
// as usual.
type PartOutcome struct {
	Part     string  `json:"part"`               // its name
	Workload string  `json:"workload,omitempty"` // by which it can be run alone; empty where that is its name
	Outcome  Outcome `json:"outcome"`            // Failed, Unsupported, or OK of one that ran apart
	Reason   string  `json:"reason,omitempty"`   // why, if Outcome is not OK; one line
	// Apart says that the part ran in another container than usual after a failure:
	// what it measured there has no value. Nil where it did not.
	Apart *Apart `json:"apart,omitempty"`
}

// Apart is with which parts a part was in a container.
type Apart struct {
	With  []string `json:"with"`  // the parts in its container, itself among them
	Usual []string `json:"usual"` // those that are there usually
}

// A Series is what a metric was in every single operation of one trial, of
// which Values has what the trial makes of them. It is raw: never sorted.
type Series struct {
	Metric string    `json:"metric"` // need not be one of Header.Metrics; none has two Series
	Values []float64 `json:"values"` // finite and at least one, in the metric's unit, in order of time within each lane
}

// MaxSeriesValues is how many values the Series of one sample have together at
// most: some 2 MB in the store. More single values than that are a distribution.
const MaxSeriesValues = 100_000

// A Distribution is how a metric was spread over the operations of one trial.
type Distribution struct {
	Metric string `json:"metric"` // need not be one of Header.Metrics; none has two
	// HDR is an HdrHistogram of values in nanoseconds: V2 encoding, compressed,
	// in base64; at most MaxHDR bytes.
	HDR string `json:"hdr"`
}

// MaxDistributions is how many a sample has at most, and MaxHDR how long the
// histogram of one may be.
const (
	MaxDistributions = 32
	MaxHDR           = 256 << 10
)

// Value returns the value of the metric with the given index, and whether
// there is one.
func (s *Sample) Value(metric int) (float64, bool) {
	if metric < 0 || metric >= len(s.Values) || math.IsNaN(s.Values[metric]) {
		return 0, false
	}
	return s.Values[metric], true
}

// PartFailed reports whether a part of a survey failed in the trial, while others did
// not.
func (s *Sample) PartFailed() bool {
	return slices.ContainsFunc(s.Parts, func(p PartOutcome) bool { return p.Outcome == Failed })
}

// PartApart reports whether a part of a survey ran in another container than usual.
func (s *Sample) PartApart() bool {
	return slices.ContainsFunc(s.Parts, func(p PartOutcome) bool { return p.Apart != nil })
}

// A Header is everything about a run that was known before its first trial.
// Samples refer to it by index.
type Header struct {
	ID       string       `json:"id"`   // see ValidRunID
	Tool     string       `json:"tool"` // version of tare that made it
	Began    time.Time    `json:"began"`
	Plan     Plan         `json:"plan"`
	Schedule [][]int      `json:"schedule"` // cells of each block in order of execution, warm-up blocks first
	Metrics  []Metric     `json:"metrics"`  // the workload's, then the counters and states
	Engines  []EngineInfo `json:"engines"`
	Host     HostFacts    `json:"host"`
	Warnings []Warning    `json:"warnings,omitempty"` // what doctor found when the run began
	// Imported says that the run came from elsewhere: it is read, never resumed.
	// Imports set it and exports clear it, whatever a file says.
	Imported bool `json:"imported,omitempty"`
}

// A Resumption is one time that a run was taken up again.
type Resumption struct {
	Time time.Time `json:"time"`
	Tool string    `json:"tool"`
	Seq  int       `json:"seq"` // the first trial after it
	Host HostFacts `json:"host"`
	// Extension is there where the run was finished before.
	Extension *Extension `json:"extension,omitempty"`
}

// An End is how a run finished. A run without one is incomplete.
type End struct {
	Time   time.Time  `json:"time"`
	Reason StopReason `json:"reason"`
	// Overhead is what tare itself used while trials ran.
	Overhead Overhead `json:"overhead"`
}

// A StopReason says why a run stopped.
type StopReason string

// The reasons for which a run stops.
const (
	StopPrecision StopReason = "precision"  // every primary comparison is as precise as was asked
	StopBlocks    StopReason = "blocks"     // the planned number of blocks
	StopBudget    StopReason = "budget"     // the time was used up
	StopAllFailed StopReason = "all-failed" // no cell could go on
)

// Overhead is the cost of the tool itself: what its own process used, its
// children not included, in trials of engines that are programs of their own.
type Overhead struct {
	NullOperation time.Duration `json:"null_operation_ns"` // median of an empty operation through the meter
	CPU           time.Duration `json:"cpu_ns"`            // user and system time of tare inside trials: washout, staging and storing lie between them
	Wall          time.Duration `json:"wall_ns"`           // of these trials, of the last sitting of a resumed run
	MaxRSS        int64         `json:"max_rss_bytes"`
}

// A Run is one execution of a plan on one host.
type Run struct {
	Header      Header
	Samples     []Sample // in order of Seq
	Resumptions []Resumption
	End         *End // nil while incomplete
}

// HostFacts describe the machine as far as it matters to a measurement.
type HostFacts struct {
	Hostname   string `json:"hostname"`
	MachineID  string `json:"machine_id"` // hash of /etc/machine-id, or empty; tells hosts apart, identifies none
	BootID     string `json:"boot_id"`
	OS         string `json:"os"`     // pretty name, such as "Debian GNU/Linux 12 (bookworm)"
	Kernel     string `json:"kernel"` // release, such as "6.18.44"
	Arch       string `json:"arch"`   // GOARCH
	CPU        string `json:"cpu"`    // model name
	CPUs       int    `json:"cpus"`   // that tare may use
	Memory     int64  `json:"memory_bytes"`
	Cgroup     string `json:"cgroup"`                   // "v1", "v2" or "hybrid"
	Virtual    string `json:"virtualization,omitempty"` // such as "kvm"; empty on bare metal or where unknown
	Governor   string `json:"governor,omitempty"`       // of CPU frequency; empty where there is none
	Clock      string `json:"clocksource,omitempty"`
	Privileged bool   `json:"privileged"` // tare ran as root
}

// A Warning is something that the reader of a result must know. It does not
// stop the analysis; it travels with the number and says what to do.
type Warning struct {
	Code   string `json:"code"`             // stable, such as "few-samples"
	Text   string `json:"text"`             // what is the matter, with the numbers
	Hint   string `json:"hint"`             // what to do about it
	Cells  []int  `json:"cells,omitempty"`  // where, as indices in Plan.Cells; empty = the whole run
	Metric string `json:"metric,omitempty"` // of which metric; empty = all
	// Also are the other metrics that it is about; none where Metric is empty.
	Also []string `json:"also,omitempty"`
}

// ErrRunID is wrapped by ValidRunID's error.
var ErrRunID = errors.New("not a run ID")
