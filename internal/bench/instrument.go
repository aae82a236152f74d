package bench

import (
	"iter"
	"time"
)

// An Instrument watches trials, as the host's counters and tracers do. One goroutine
// uses it.
type Instrument interface {
	// Metrics lists what it reports for each trial; none if it reports nothing per trial.
	Metrics() []Metric

	// Begin is called just before the timed part of a trial. Began is the time when the
	// trial's Sample began, on the run's clock, CLOCK_MONOTONIC.
	Begin(t Trial, began time.Duration)

	// End is called just after the timed part, even if the trial failed. It writes one
	// value for each of Metrics to dst; NaN = no value.
	End(dst []float64)
}

// A Tracer is an Instrument that sees single events.
type Tracer interface {
	// Trace yields the events of the trial that has ended, for the Trace of its Sample. It
	// is called after the End of every instrument, when nothing is measured any more, and
	// only if the trial succeeded. Events before the sample's beginning are left out.
	Trace() iter.Seq[TraceEvent]
}

// A CallCounter is an Instrument that counts the system calls of each process, over the
// whole run. The runner adds it to the engine of a Task, where As finds it.
type CallCounter interface {
	// SystemCalls returns how many system calls a process of this host has begun since
	// its program was executed; NaN = unknown. It may be called from any goroutine.
	SystemCalls(pid int) float64
}
