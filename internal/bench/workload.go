package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Workload says what happens in one trial and what is measured. It does not
// choose how often or in which order it runs. Between trials it keeps nothing
// except in a Fixture or in the run's Common.
type Workload interface {
	Name() string

	// Doc says in one sentence what is measured.
	Doc() string

	// Metrics lists everything that Run may report, primary ones first.
	Metrics() []Metric

	// Params lists the options that an experiment may set.
	Params() []Param

	// Check returns an error if a cell cannot run; the error wraps ErrUnsupported
	// and names the missing capability. It changes nothing. The trials of such a
	// cell are Unsupported; the others run.
	Check(ctx context.Context, t Task) error

	// Run does one trial. It measures through m and removes everything that it made,
	// even if it fails or ctx has ended.
	Run(ctx context.Context, t Task, m Meter) error
}

// A Networked workload measures requests from a client to a server that the engine
// under test made, and nothing else. The network between them is part of the
// measurement, so the server may be on another machine.
type Networked interface{ Networked() }

// CheckRemote refuses an engine on another machine for a workload that is not
// Networked; the error wraps ErrUnsupported. The runner calls it before Check.
func CheckRemote(w Workload, e Engine) error {
	_, remote := As[Remoter](e)
	if _, networked := w.(Networked); networked || !remote {
		return nil
	}
	return fmt.Errorf(
		"%w: engine %s is on another machine, so the times of %s would include the network: run tare there",
		ErrUnsupported, e.Name(), w.Name())
}

// A Socketed workload can have a client reach its server by a Unix socket: see
// ReachSocket.
type Socketed interface{ Socketed() }

// CheckReach refuses reach socket for a workload that is not Socketed, and for an engine on
// another machine; the error wraps ErrUnsupported. The runner calls it before Check.
func CheckReach(w Workload, e Engine, spec Spec) error {
	if spec.Reach != ReachSocket {
		return nil
	}
	if _, ok := w.(Socketed); !ok {
		return fmt.Errorf("%w: network socket: %s does not use a Unix socket: use another network",
			ErrUnsupported, w.Name())
	}
	if _, remote := As[Remoter](e); remote {
		return fmt.Errorf("%w: network socket: engine %s is on another machine, which shares no directory with this one",
			ErrUnsupported, e.Name())
	}
	return nil
}

// A Starter is a Workload whose trials start containers while some of its metrics are timed: a Plant delays these.
type Starter interface {
	// StartTimes lists the names of the metrics that have the step "start" of a trial in their time.
	StartTimes() []string
}

// A PartMeasurer is a Workload whose options say which of its parts a trial has, and so which of its metrics.
type PartMeasurer interface {
	// Measures reports whether trials with these options, each of which is valid, measure a metric
	// of the workload. Where the options contradict one another, it reports true.
	Measures(params map[string]string, metric string) bool
}

// A ParamChecker is a Workload with options that can contradict one another.
type ParamChecker interface {
	// CheckParams reports which options of a cell contradict one another, so that the
	// cell cannot run with any engine or image. Params are as in Task.
	CheckParams(params map[string]string) error
}

// A Param is an option of a workload.
type Param struct {
	Name    string // as in YAML
	Default string
	Doc     string
	// Valid returns what is wrong with a value, without the option's name, or nil.
	// Valid itself may be nil. If the value is a list, the error may be a *ListItemError.
	Valid func(value string) error
}

// OneOf returns the Valid function of an option that takes one of some words. Its error is a
// *ChoiceError.
func OneOf(words ...string) func(value string) error {
	return func(value string) error {
		if slices.Contains(words, value) {
			return nil
		}
		named := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
		return &ChoiceError{value, named}
	}
}

// A ChoiceError says that a value is none of the words that an option takes.
type ChoiceError struct {
	Value string
	Words []string
}

func (e *ChoiceError) Error() string {
	return fmt.Sprintf("%.40q is not one of %s", e.Value, strings.Join(e.Words, ", "))
}

// Between returns the Valid function of an option that is a whole number.
func Between(least, most int64) func(value string) error {
	return func(value string) error {
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < least || n > most {
			return fmt.Errorf("%.40q is not a whole number between %d and %d", value, least, most)
		}
		return nil
	}
}

// DurationBetween returns the Valid function of an option that is a duration.
func DurationBetween(least, most time.Duration) func(value string) error {
	return func(value string) error {
		if d, err := time.ParseDuration(value); err != nil || d < least || d > most {
			return fmt.Errorf("%.40q is not a duration between %v and %v", value, least, most)
		}
		return nil
	}
}

// A ListItemError says what is wrong with one word of a list.
type ListItemError struct {
	Word int // from 0
	Err  error
}

func (e *ListItemError) Error() string { return e.Err.Error() }
func (e *ListItemError) Unwrap() error { return e.Err }

// A Task is what one trial works on.
type Task struct {
	Engine  Engine
	Spec    Spec
	Params  map[string]string // every declared Param, with its default if it is not set
	Fixture Fixture           // nil unless the workload is a Fixturer
	Client  Engine            // runs load generators beside the engine under test: plain processes of this host
	Run     string            // ID of the run, for names of objects that a workload makes
	Dir     string            // directory of the run on this host; removed with the run
	Cell    int               // index in Plan.Cells
	Common  *Common           // shared by the cells of the run
	// OpTime is the time limit of one operation, for a workload that does several at once; 0
	// = none. Clock.Step applies it by itself.
	OpTime time.Duration
	// Condition is the same for cells that are compared with one another; in a
	// survey, for the same part of them.
	Condition string
	// Turns are those that the cell takes with the others of its block; nil = each trial has the
	// machine to itself. They are the same in all trials.
	Turns Turns
	// Seed is for what a workload draws at random in a trial: the same in all cells of a block, and another one
	// in each block. It follows from the run's seed, and is that one where there is no trial, as in Setup.
	Seed uint64
	// Traced says that the trial is run for its trace alone: see Traceable.
	Traced bool
	// PartBegins tells whoever watches the run which part of the trial begins. It is called
	// while nothing is timed; nil = nobody watches.
	PartBegins func(part string)
	// EarlierValue returns the last value of a metric in this cell before the run was
	// resumed; false if there is none. Earlier may be nil.
	EarlierValue func(metric string) (value float64, ok bool)
}

// A Fixturer is a Workload that needs something that is too expensive to make in each
// trial: an initialised database, a running server. Each cell has its own, unless
// the workload is a FixtureKeyer.
type Fixturer interface {
	// Setup makes the fixture, right before the first trial that needs it; never timed.
	// It returns nil for a cell that needs none. If it fails, nothing is left behind and
	// every trial of the cell is skipped.
	Setup(ctx context.Context, t Task) (Fixture, error)
}

// A Fixture survives from trial to trial. Its data that outlive containers are in a
// directory below Task.Dir, or have a Spec.DataName.
type Fixture interface {
	Reset(ctx context.Context) error  // before each trial; never timed
	Remove(ctx context.Context) error // after the last trial; may be called twice
}

// A FixtureSuspender is a Fixture that is active only while trials of its cell run: Rest undoes
// what Reset did. It is called after each trial, even if Reset failed, and never timed.
// Like Remove, it works after the trial's context has ended.
type FixtureSuspender interface {
	Suspend(ctx context.Context) error
}
