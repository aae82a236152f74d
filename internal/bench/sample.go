package bench

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"
)

// An Outcome is how a trial ended.
type Outcome string

// The outcomes of a trial.
const (
	OK       Outcome = "ok"
	Failed   Outcome = "failed"    // an operation failed, or the engine did not apply the Spec
	TimedOut Outcome = "timed-out" // an operation or the trial reached its time limit
	Canceled Outcome = "canceled"  // the user ended the trial early
	Skipped  Outcome = "skipped"   // did not begin, for the reason given
	// Unsupported did not begin because the engine cannot do what the cell asks
	// for: nothing failed, and there is nothing to measure.
	Unsupported Outcome = "unsupported"
)

// Failure reports whether a trial that ended so counts as failed. One that the user ended early does not, and
// neither does one that its engine does not support.
func (o Outcome) Failure() bool { return o != OK && o != Canceled && o != Unsupported }

// A Sample is everything that one trial produced. There is exactly one for each
// trial that began, even if it failed: a missing Sample is a bug, a failed one is
// data. A Sample is never averaged, trimmed or re-ordered.
type Sample struct {
	Trial     Trial
	Began     time.Time     // wall clock, UTC
	Elapsed   time.Duration // of the whole trial, untimed parts included
	Counted   time.Duration // part of Elapsed between the two readings of the host's counters; 0 = unknown, or not OK
	Outcome   Outcome
	Operation string // the operation that failed, a metric's name; empty if none did
	Reason    string // why, if Outcome is not OK; one line
	// Values are parallel to Header.Metrics; NaN = nothing was reported. It is nil
	// unless Outcome is OK: a failed operation is never a duration.
	Values []float64
	Series []Series // at most MaxSeriesValues in all; nil unless Outcome is OK
	// Distributions are of metrics with more values than Series keep; at most
	// MaxDistributions, nil unless Outcome is OK.
	Distributions []Distribution
	Trace         *Trace   // events that instruments saw; nil if there were none, or Outcome is not OK
	Applied       *Applied // what the engine applied; nil if the trial did not get that far
	Notes         []string // stable codes, such as NoteHostClock
	// Parts are the parts of a survey that lack values in this trial; nil if none do.
	Parts []PartOutcome
}

// A PartOutcome says how a part of a survey ended in one trial, if it lacks values.
type PartOutcome struct {
	Part     string  `json:"part"`               // its name
	Workload string  `json:"workload,omitempty"` // the workload that runs it alone; empty if it has the part's name
	Outcome  Outcome `json:"outcome"`            // Failed, Unsupported, or OK if it ran apart
	Reason   string  `json:"reason,omitempty"`   // why, if Outcome is not OK; one line
	// Regrouped says that the part ran in another container than usual after a failure, so
	// its values were dropped. Nil if it did not.
	Regrouped *Regrouping `json:"apart,omitempty"`
}

// Regrouping says which parts shared a container with a part.
type Regrouping struct {
	With  []string `json:"with"`  // the parts in its container, with itself
	Usual []string `json:"usual"` // the parts that usually share it
}

// A Series holds the value of a metric in every single operation of one trial; the
// sample's Values sum them up. It is raw: never sorted.
type Series struct {
	Metric string    `json:"metric"` // need not be one of Header.Metrics; none has two Series
	Values []float64 `json:"values"` // finite and at least one, in the metric's unit, in order of time within each lane
}

// PerSecond is in the name of a Series that has a value for each second: after the part, before the rest of the
// metric's name. So "load.per_second.rate" is "load.rate" second by second. A time of 0 is none: nothing ended in
// that second.
const PerSecond = "per_second."

// CheckpointSeries is, after the part, the name of a Series that says for what part of each second the server wrote a
// checkpoint. Reports mark these seconds in the other Series of the part.
const CheckpointSeries = PerSecond + "checkpoint"

// SeriesOf returns of which metric a Series is, by its name, and whether it has a value for each second.
func SeriesOf(series string) (metric string, perSecond bool) {
	if rest, ok := strings.CutPrefix(series, PerSecond); ok {
		return rest, true
	}
	part, rest, ok := strings.Cut(series, "."+PerSecond)
	if !ok {
		return series, false
	}
	return part + "." + rest, true
}

// MaxSeriesValues is the largest number of values in all Series of one sample: some
// 2 MB in the store. More values than that need a Distribution.
const MaxSeriesValues = 100_000

// A Distribution is the histogram of a metric over the operations of one trial.
type Distribution struct {
	Metric string `json:"metric"` // need not be one of Header.Metrics; none has two
	// HDR is an HdrHistogram of values in nanoseconds: V2 encoding, compressed,
	// in base64; at most MaxHDR bytes.
	HDR string `json:"hdr"`
}

// MaxDistributions is the largest number of Distributions of a sample, and MaxHDR the
// largest size of one.
const (
	MaxDistributions = 32
	MaxHDR           = 256 << 10
)

// MarkTraced makes the sample that of a traced trial: a store keeps its note, and nothing that was
// measured while tracing slowed it becomes a value.
func (s *Sample) MarkTraced() {
	s.Trial.Traced = true
	s.Notes = append(s.Notes, NoteTraced)
	for i := range s.Values {
		s.Values[i] = math.NaN()
	}
	s.Series, s.Distributions, s.Counted = nil, nil, 0
}

// Value returns the value of the metric with the given index, and whether
// there is one.
func (s *Sample) Value(metric int) (float64, bool) {
	if metric < 0 || metric >= len(s.Values) || math.IsNaN(s.Values[metric]) {
		return 0, false
	}
	return s.Values[metric], true
}

// PartFailed reports whether a part of a survey failed in the trial.
func (s *Sample) PartFailed() bool {
	return slices.ContainsFunc(s.Parts, func(p PartOutcome) bool { return p.Outcome == Failed })
}

// PartRegrouped reports whether a part of a survey ran in another container than usual.
func (s *Sample) PartRegrouped() bool {
	return slices.ContainsFunc(s.Parts, func(p PartOutcome) bool { return p.Regrouped != nil })
}

// A Header is everything about a run that is known before its first trial.
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
	// MeasuredBy is the program that measured it, such as "pgbench"; empty = tare. Nothing in
	// such a run was interleaved or read back.
	MeasuredBy string `json:"measured_by,omitempty"`
	// Joint is set in a run that was measured together with others, on several hosts.
	Joint *Joint `json:"joint,omitempty"`

	// What people have written on the run, which may change after it has ended: see Keeper.
	Name    string   `json:"name,omitempty"`  // no other run of the same store has it; see ValidRunName
	Remarks []Remark `json:"notes,omitempty"` // in the order in which they came
}

// A Joint ties runs of one plan that were measured together, one on each host: every block begins on
// all hosts at the same time. Their times are all of one clock, that of the machine where the
// measurement was started.
type Joint struct {
	ID    string   `json:"id"`    // the same in all of them; see ValidRunID
	Host  string   `json:"host"`  // of this run, as it was asked for; one of Hosts
	Hosts []string `json:"hosts"` // of all of them, 1 to MaxJoint
	// Ahead is how far the clock of this run's host was ahead of the common one when the run began.
	Ahead time.Duration `json:"ahead_ns,omitempty"`
}

// MaxJoint is on how many hosts runs can be measured together.
const MaxJoint = 64

// A Resumption records that a run was resumed.
type Resumption struct {
	Time     time.Time `json:"time"`
	Tool     string    `json:"tool"`
	Seq      int       `json:"seq"` // the first trial after the resumption
	Host     HostFacts `json:"host"`
	Warnings []Warning `json:"warnings,omitempty"` // what doctor found when it was resumed
	// Extension is there where the run was finished before.
	Extension *Extension `json:"extension,omitempty"`
}

// An End says how a run finished. A run without one is incomplete.
type End struct {
	Time   time.Time  `json:"time"`
	Reason StopReason `json:"reason"`
	// Overhead is what tare itself used while trials ran.
	Overhead Overhead `json:"overhead"`
	// Warnings are of what was seen while trials ran, such as another run.
	Warnings []Warning `json:"warnings,omitempty"`
}

// A StopReason says why a run stopped.
type StopReason string

// The reasons for which a run stops.
const (
	StopPrecision StopReason = "precision"  // every primary comparison has the precision asked for
	StopBlocks    StopReason = "blocks"     // the planned number of blocks was reached
	StopBudget    StopReason = "budget"     // the time limit was reached
	StopAllFailed StopReason = "all-failed" // every cell was given up
)

// Overhead is the cost of tare itself: the usage of its own process, without its
// children, in trials of engines that are not an InProcessEngine.
type Overhead struct {
	NullOperation time.Duration `json:"null_operation_ns"` // median of an empty operation through the meter
	// CPU is the user and system time of tare inside trials, without washout, staging and
	// storing between them.
	CPU time.Duration `json:"cpu_ns"`
	// Wall is the length of these trials; of a resumed run, those after the last resumption.
	Wall   time.Duration `json:"wall_ns"`
	MaxRSS int64         `json:"max_rss_bytes"`
}

// A Run is one execution of a plan on one host.
type Run struct {
	Header      Header
	Samples     []Sample // in order of Seq
	Resumptions []Resumption
	End         *End // nil while incomplete
}

// Timed returns the run without its traced trials, which nothing but a timeline may use: itself if it has
// none.
func (r *Run) Timed() *Run {
	traced := func(s Sample) bool { return s.Trial.Traced }
	if !slices.ContainsFunc(r.Samples, traced) {
		return r
	}
	timed := *r
	timed.Samples = slices.DeleteFunc(slices.Clone(r.Samples), traced)
	return &timed
}

// HostFacts describe the machine as far as it matters to a measurement.
type HostFacts struct {
	Hostname  string `json:"hostname"`
	MachineID string `json:"machine_id"` // hash of /etc/machine-id, or empty; tells hosts apart, identifies none
	BootID    string `json:"boot_id"`
	OS        string `json:"os"`     // pretty name, such as "Debian GNU/Linux 12 (bookworm)"
	Kernel    string `json:"kernel"` // release, such as "6.18.44"
	Arch      string `json:"arch"`   // GOARCH
	CPU       string `json:"cpu"`    // model name
	CPUs      int    `json:"cpus"`   // the number that tare may use
	Memory    int64  `json:"memory_bytes"`
	Cgroup    string `json:"cgroup"`                   // "v1", "v2" or "hybrid"
	Virtual   string `json:"virtualization,omitempty"` // such as "kvm"; empty on bare metal or if unknown
	Governor  string `json:"governor,omitempty"`       // of CPU frequency; empty if there is none
	Clock     string `json:"clocksource,omitempty"`
	// Disks are the disks with size, kind and I/O scheduler, such as "vda 40 GiB SSD none".
	Disks string `json:"disks,omitempty"`
	// Mitigations are the weaknesses of the CPUs that concern it, and what the kernel does about each.
	Mitigations string `json:"mitigations,omitempty"`
	Security    string `json:"security,omitempty"` // the kernel's security modules, separated by commas
	Privileged  bool   `json:"privileged"`         // tare ran as root
}

// A Warning tells the reader of a result what limits it, and what to do about it. It
// does not stop the analysis.
type Warning struct {
	Code   string `json:"code"`             // stable, such as "few-samples"
	Text   string `json:"text"`             // what is wrong, with the numbers
	Hint   string `json:"hint"`             // what to do about it
	Cells  []int  `json:"cells,omitempty"`  // the cells concerned, as indices in Plan.Cells; empty = the whole run
	Metric string `json:"metric,omitempty"` // the metric concerned; empty = all
	// Also lists further metrics that it concerns; empty if Metric is.
	Also []string `json:"also,omitempty"`
}

// ErrRunID is wrapped by ValidRunID's error.
var ErrRunID = errors.New("not a run ID")
