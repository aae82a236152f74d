package bench

import (
	"iter"
	"time"
)

// An Instrument watches trials: the host's counters do, and whatever traces them. It is
// used by one goroutine.
type Instrument interface {
	// Metrics lists what it finds in each trial; none where it counts nothing by trial.
	Metrics() []Metric

	// Begin is called just before the timed part of a trial. Began is when its Sample
	// began, on the run's clock, CLOCK_MONOTONIC.
	Begin(t Trial, began time.Duration)

	// End is called just after the timed part, also of a trial that has failed. It puts
	// one value for each of Metrics into dst, NaN where there is none.
	End(dst []float64)
}

// A Tracer is an Instrument that sees single events.
type Tracer interface {
	// Trace yields what it saw in the trial that has ended, for the Trace of its Sample. It
	// is called after the End of every instrument, once nothing is measured any more, and
	// only if the trial came through. Events before the sample's beginning are left out.
	Trace() iter.Seq[TraceEvent]
}

// A CallCounter is an Instrument that counts the system calls of each process by itself,
// over the whole run. The runner adds it to the engine that a Task has: who looks into
// containers finds it there with As.
type CallCounter interface {
	// SystemCalls is how many system calls a process of this host has begun since its
	// program was executed; NaN where that is not known. It may be called from any
	// goroutine.
	SystemCalls(pid int) float64
}
