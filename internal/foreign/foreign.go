// Package foreign makes runs of what other programs have measured. A package below it reads the
// results of one such program; package app lists them.
//
// Other programs measure one thing after the other, so nothing in their results is paired. That is
// why a Set has conditions and no factors: its run shows medians and compares nothing. Sets become
// runs of their own, which can be compared as runs: then the unit is the run.
package foreign

import (
	"fmt"
	"math"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A Source is a program whose results can be imported.
type Source struct {
	Name string // as users write it
	Doc  string // what of it is read, for people: the rest of a sentence that begins with the name
	// Read reads the results in some files. What it returns was measured by the program, and
	// nothing in it is invented: what the files do not tell is missing. The error is an *Error
	// where a file is not as it must be.
	Read func(in *Input) ([]Set, error)
}

// A Set is results that were measured with the same things: it becomes one run.
type Set struct {
	Workload string // of tare that measures the same, such as "postgres"; empty = there is none
	Subject  string // what was measured, such as "postgres": the name of all cells
	Version  string // of the subject; empty = unknown
	Program  string // that measured it, such as "pgbench"
	Doc      string // what was compared, in the words of whoever measured it; may be empty
	Host     bench.HostFacts
	Facts    []bench.Label // what else is known of the subject, such as settings; the same in all trials
	Labels   []bench.Label // of the run
	// Conditions are the levels of trials that are conditions even if they are the same in all.
	// Other levels are conditions if they vary, and Facts if not.
	Conditions []string
	Metrics    []bench.Metric // of which Trials may have values
	Trials     []Trial        // in any order where all have a time, otherwise in that of execution
	Found      time.Time      // when the results were written; for trials without a time
	// Notes say what a reader of the results must know.
	Notes []Note
}

// A Trial is one test of a Set.
type Trial struct {
	Where   string    // its place in the files, for messages
	Began   time.Time // zero = unknown
	Elapsed time.Duration
	Levels  []bench.Label // under what it was measured; one without a value is the same as none
	// Failed says why it has no values; empty = it has.
	Failed        string
	Values        map[string]float64 // by metric; what is missing is unknown
	Series        []bench.Series
	Distributions []bench.Distribution
}

// Set gives the trial a value, unless it is not a number.
func (t *Trial) Set(metric string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	if t.Values == nil {
		t.Values = map[string]float64{}
	}
	t.Values[metric] = value
}

// MaxTrials is how many trials are read from one file.
const MaxTrials = 1_000_000

// Label makes a level or a label of what a file says: one line of bounded length.
func Label(key, value string) bench.Label {
	return bench.Label{Key: bench.Reason(key), Value: bench.Reason(value)}
}

// Unknown is the level of what the files do not tell.
const Unknown = "unknown"

// A Note is a warning about a Set.
type Note struct {
	Code string // of a bench.Warning
	Text string
	Hint string
}

// The codes of warnings about imported results.
const (
	CodeNotApart  = "not-interleaved" // the trials were made one after the other
	CodeCorrected = "corrected"       // values that the other program got wrong were corrected
	CodeImported  = "imported"        // what imported results lack, or mean otherwise
)

// An Error is something in a file that cannot be read.
type Error struct {
	File string
	Line int // from 1; 0 = unknown or about all of it
	Err  error
	Hint string // what to do about it; may be empty
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error with a hint.
func Errorf(file string, line int, hint, format string, args ...any) *Error {
	return &Error{file, line, fmt.Errorf(format, args...), hint}
}
