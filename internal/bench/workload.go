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
// but what a Fixture or the run's Common holds.
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
	Cell    int               // of the plan, by index
	Common  *Common           // what the cells of the run have in common
	OpTime  time.Duration     // the time limit of one operation, for a workload that does several at once; 0 = none. The Clock has it for Step
	// Condition is the same for the cells that are compared with one another; in a
	// survey, for the same part of them.
	Condition string
	// Earlier returns what a metric was last in this cell before the run was resumed;
	// false where it was not, or is not known. Nil is the same.
	Earlier func(metric string) (value float64, ok bool)
}

// A Fixturer is a Workload that needs something that is too dear to make in each
// trial: an initialised database, a running server. Each cell has its own, unless
// the workload is a Keyer.
type Fixturer interface {
	// Setup makes it, right before the first trial that needs it; never timed. It may
	// be nil, for a cell that needs none. If it fails, nothing is left behind and
	// every trial of the cell is skipped.
	Setup(ctx context.Context, t Task) (Fixture, error)
}

// A Fixture is what survives from trial to trial. Data in it that outlive containers
// lie in a directory below Task.Dir, or have a Spec.DataName.
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
