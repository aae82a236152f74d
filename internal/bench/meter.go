package bench

import (
	"context"
	"time"
)

// A Meter is how a workload measures one trial: what it does takes its time on the
// Clock, and what it finds goes to the Recorder. The runner makes one for each trial.
type Meter interface {
	Clock
	Recorder
}

// MeterOf returns the Meter of a clock and a recorder.
func MeterOf(c Clock, r Recorder) Meter {
	return struct {
		Clock
		Recorder
	}{c, r}
}

// A Clock times and limits what is done with containers. That of a trial is the
// runner's. Methods are for one goroutine unless they say otherwise.
type Clock interface {
	// Now is CLOCK_MONOTONIC of the host, the clock that processes in every
	// container on this kernel share unless they run in a sandbox or a VM.
	// It may be called from any goroutine.
	Now() time.Duration

	// Step runs op and reports how long it took if it succeeded. In a trial that is under
	// the time limit of one operation, enforced by ending the trial's context. The error
	// is op's, with the name: a metric's, where one spans the step.
	Step(name string, op func() error) (Span, error)

	// Cleanup runs op at once, outside every measurement, with a context of its own
	// that outlives the trial's, and once more if it fails. If it fails again, its
	// error fails the trial.
	Cleanup(op func(ctx context.Context) error)
}

// A Recorder keeps what is found in one trial. Reporting a metric that was not
// declared, or twice, fails the trial. Methods are for one goroutine.
type Recorder interface {
	// Record reports a number, in the metric's unit.
	Record(metric string, value float64)

	// Series reports what a metric was in every operation of the trial: see
	// Series. The metric need not be declared. It may be called once for each
	// metric, and keeps none of values; no values are no Series. One that would
	// exceed MaxSeriesValues is left out whole, with NoteSeriesLeftOut.
	Series(metric string, values []float64)

	// Distribution reports how a metric was spread over the operations of the
	// trial, where they are more than a Series has room for. The metric need not
	// be declared. It may be called once for each metric.
	Distribution(metric, hdr string)

	// Applied attaches what the engine applied, for the sample, and returns
	// Attest's error.
	Applied(want Spec, got Applied) error

	// Note attaches a code that qualifies the sample: of a note that the workload
	// declares, or of one of Notes. The report turns it into a warning.
	Note(code string)

	// Part reports what became of a part of a survey that has no value in the trial, or
	// not all.
	Part(p PartOutcome)
}

// Discard is a Recorder that keeps nothing. Who needs little of a trial embeds it, and
// has methods for the rest.
type Discard struct{}

// Record implements Recorder.
func (Discard) Record(string, float64) {}

// Series implements Recorder.
func (Discard) Series(string, []float64) {}

// Distribution implements Recorder.
func (Discard) Distribution(_, _ string) {}

// Applied implements Recorder: what was applied is held to what was asked for.
func (Discard) Applied(want Spec, got Applied) error { return Attest(want, got) }

// Note implements Recorder.
func (Discard) Note(string) {}

// Part implements Recorder.
func (Discard) Part(PartOutcome) {}

// A Span is a stretch of time on a Clock.
type Span struct{ Begin, End time.Duration }

// Duration is how long the span is.
func (s Span) Duration() time.Duration { return s.End - s.Begin }
