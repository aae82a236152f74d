package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Workload says what happens in one trial and what is measured. It does not
// choose how often or in which order it runs, and keeps nothing between trials
// but what a Fixture holds.
type Workload interface {
	Name() string

	// Doc says in one sentence what is measured.
	Doc() string

	// Metrics lists everything that Run may report, primary ones first.
	Metrics() []Metric

	// Params lists the options that an experiment may set.
	Params() []Param

	// Check reports why a cell cannot run, if it cannot; the error wraps
	// ErrUnsupported and names the missing capability. It changes nothing. The
	// trials of such a cell are Unsupported; those of the others go on.
	Check(ctx context.Context, t Task) error

	// Run does one trial. It measures through m and removes what it made, also
	// when it fails or ctx has ended.
	Run(ctx context.Context, t Task, m Meter) error
}

// A Networked workload asks a server, made by the engine under test, from a
// client beside it, and times nothing else: the network between the two is part
// of what it measures, so the server may be on another machine.
type Networked interface{ Networked() }

// CheckRemote refuses an engine on another machine for a workload that is not
// Networked; the error wraps ErrUnsupported.
func CheckRemote(w Workload, e Engine) error {
	_, remote := As[Remoter](e)
	if _, networked := w.(Networked); networked || !remote {
		return nil
	}
	return fmt.Errorf("%w: engine %s is on another machine, and the times of %s would include the network: run tare on that machine", ErrUnsupported, e.Name(), w.Name())
}

// A ParamChecker is a Workload with options that can contradict one another.
type ParamChecker interface {
	// CheckParams reports which options of a cell do, so that it can run with no
	// engine and no image. Params are as in Task.
	CheckParams(params map[string]string) error
}

// A Param is an option of a workload.
type Param struct {
	Name    string // as in YAML
	Default string
	Doc     string
	// Valid reports what is wrong with a value, without the option's name, or nil.
	// It may be nil. Where the value is a list, its error may be a *WordError.
	Valid func(value string) error
}

// OneOf is the rule of an option that is one of some words.
func OneOf(words ...string) func(value string) error {
	return func(value string) error {
		if slices.Contains(words, value) {
			return nil
		}
		named := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
		return fmt.Errorf("%.40q is not one of %s", value, strings.Join(named, ", "))
	}
}

// A WordError is what is wrong with one word of a list.
type WordError struct {
	Word int // from 0
	Err  error
}

func (e *WordError) Error() string { return e.Err.Error() }
func (e *WordError) Unwrap() error { return e.Err }

// A Task is what one trial works on.
type Task struct {
	Engine  Engine
	Spec    Spec
	Params  map[string]string // every declared Param, with its default where nothing was set
	Fixture Fixture           // nil unless the workload is a Fixturer
	Client  Engine            // what a load generator runs on, beside the engine under test: plain processes of this host
	Run     string            // ID of the run, for the names of what a workload makes
	Dir     string            // of the run, on this host: what a workload keeps there is gone with it
	OpTime  time.Duration     // the time limit of one operation, for a workload that does several at once; 0 = none. The Clock has it for Step
	// Condition is the same for the cells that are compared with one another; in a
	// survey, for the same part of them.
	Condition string
	// Earlier returns what a metric was last in this cell before the run was resumed;
	// false where it was not, or is not known. Nil is the same.
	Earlier func(metric string) (value float64, ok bool)
}

// A Fixturer is a Workload that needs something per cell that is too dear to
// make in each trial: an initialised database, a running server.
type Fixturer interface {
	// Setup makes it, before the first trial of the cell; never timed. It may be
	// nil, for a cell that needs none. If it fails, nothing is left behind and
	// every trial of the cell is skipped.
	Setup(ctx context.Context, t Task) (Fixture, error)
}

// A Fixture is what survives from trial to trial of one cell.
type Fixture interface {
	Reset(ctx context.Context) error  // before each trial; never timed
	Remove(ctx context.Context) error // after the last trial; twice is fine
}

// A Rester is a Fixture that is there only while trials of its cell run: Rest
// undoes what Reset did. It is called after each trial, never timed, and also
// where Reset failed; like Remove it works after the trial's context has ended.
type Rester interface {
	Rest(ctx context.Context) error
}

// The notes that a report has words for.
const (
	// NoteHostClock marks a sample in which the process inside does not share
	// the host's clock, so that host-side times were used instead of its own marks.
	NoteHostClock = "host-clock"
	// NoteLostContainers marks a sample of many containers, of which some failed
	// and are in no time.
	NoteLostContainers = "lost-containers"
	// NoteEndedEarly marks a sample in which the process inside had ended by itself
	// before an operation came that ends it. That operation has no time.
	NoteEndedEarly = "ended-early"
	// NotePartly marks a sample of a survey of which some part cannot run in this
	// cell. Its metrics have no value. A colon, a blank, the part and the reason follow.
	NotePartly = "partly"
	// NoteDamaged marks what a store gives in the place of a sample that it cannot
	// read any more. Nothing in it was measured.
	NoteDamaged = "damaged"
	// NotePartFailed marks a sample of a survey of which some part failed, and has
	// no value, or not all. A colon, a blank, the part and the reason follow, such as
	// "part-failed: few (http): REASON" where the part's workload has another name.
	NotePartFailed = "part-failed"
	// NotePartApart marks a sample of a survey of which some parts ran in another
	// container than usual after a failure. What they measured there has no value. A
	// colon, a blank, the parts and their containers follow.
	NotePartApart = "part-apart"
	// NoteSameCPU marks a sample in which client and server had to share a CPU.
	NoteSameCPU = "same-cpu"
	// NoteClientBound marks a sample in which the client used all of its CPUs, and
	// the server did not: the server could have done more.
	NoteClientBound = "client-bound"
	// ClientBoundMetric is what it limits.
	ClientBoundMetric = "throughput.rate"
	// NoteLoadBound marks a sample of requests in which the client had no CPU time
	// left, and the server had: see NoteClientBound.
	NoteLoadBound = "load-bound"
	// NoteClosedLoop marks a sample whose client sent nothing while it waited, so
	// that a stall of the server is in few of its times.
	NoteClosedLoop = "closed-loop"
	// NoteRateMissed marks a sample in which more than 1 % of the requests that were
	// due had no good answer in time.
	NoteRateMissed = "rate-missed"
	// NoteFailedRequests marks a sample in which requests failed.
	NoteFailedRequests = "failed-requests"
	// NoteNoKnee marks a sample in which datagrams were lost at every rate that was
	// tried, so that the highest rate without loss has no value.
	NoteNoKnee = "no-knee"
	// NoteFull marks a sample of a host that was filled until a container could not
	// be started, or ended by itself.
	NoteFull = "full"
	// NoteSeriesLeftOut marks a sample with more values of single operations than
	// are kept. Its Values are those of all operations.
	NoteSeriesLeftOut = "series-left-out"
	// NoteIOUring, NoteIOLibaio and NoteIOThreads mark a sample whose workload was
	// free to choose how its requests reach the kernel, with what it chose.
	NoteIOUring   = "io-uring"
	NoteIOLibaio  = "io-libaio"
	NoteIOThreads = "io-threads"
	// NoteNotADisk marks a sample whose data was kept in memory.
	NoteNotADisk = "not-a-disk"
	// NoteBufferedIO marks a sample that went through the page cache because the
	// file system cannot do without, and nobody insisted.
	NoteBufferedIO = "buffered-io"
)
