package bench

import (
	"context"
	"time"
)

// A Meter measures one trial for a workload: the Clock times its steps, and the Recorder
// takes its results. The runner makes one for each trial.
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

// A Clock times and limits operations on containers. The runner provides the Clock of a
// trial. Methods are for one goroutine unless they say otherwise.
type Clock interface {
	// Now is CLOCK_MONOTONIC of the host, the clock that processes in every
	// container on this kernel share unless they run in a sandbox or a VM.
	// It may be called from any goroutine.
	Now() time.Duration

	// Step runs op and returns the time that it took if it succeeded. In a trial the
	// time limit of one operation applies: when it is over, the trial's context ends.
	// The error is op's, with the name: a metric's name if a metric spans the step.
	Step(name string, op func() error) (Span, error)

	// Cleanup runs op at once and never times it. op gets a context of its own that
	// outlives the trial's, and runs once more if it fails. If it fails again, its error
	// fails the trial.
	Cleanup(op func(ctx context.Context) error)
}

// A Recorder keeps the results of one trial. Reporting an undeclared metric, or one
// metric twice, fails the trial. Methods are for one goroutine.
type Recorder interface {
	// Record reports a number, in the metric's unit.
	Record(metric string, value float64)

	// Series reports the value of a metric in every operation of the trial: see the
	// type Series. The metric need not be declared. It may be called once for each
	// metric, and does not retain values; without values there is no Series. One that
	// would exceed MaxSeriesValues is left out as a whole, with NoteSeriesLeftOut.
	Series(metric string, values []float64)

	// Distribution reports the distribution of a metric over the operations of the
	// trial, if they are too many for a Series. The metric need not be declared. It
	// may be called once for each metric.
	Distribution(metric, hdr string)

	// Applied attaches what the engine applied to the sample, and returns Attest's
	// error.
	Applied(want Spec, got Applied) error

	// Note attaches the code of a note that qualifies the sample. The workload must
	// declare the note, or Notes must list it. The report turns it into a warning.
	Note(code string)

	// Part reports the outcome of a part of a survey that lacks values in the trial.
	Part(p PartOutcome)

	// Stages reports of which stretches of time the value of a metric is the sum, in order of time. It
	// is kept only of a traced trial, for the timeline of the metric.
	Stages(metric string, stages []Stage)
}

// A Stage is one stretch of time of which a metric is made, such as the call that creates the container.
type Stage struct {
	Name string // such as "create"
	Span
	// Inside says that it ended with an instruction of the process inside, by that process's own mark;
	// otherwise it ended in tare.
	Inside bool
	// Polled says that tare looked from time to time whether it had ended.
	Polled bool
}

// A Traceable is a Workload with metrics that a timeline can explain.
type Traceable interface {
	// Traceable says that Run reports Stages if Task.Traced. Run then does once what it otherwise repeats.
	Traceable()
}

// Discard is a Recorder that keeps nothing. A type that needs only some of a trial's
// results embeds it and overrides the methods for those.
type Discard struct{}

// Record implements Recorder.
func (Discard) Record(string, float64) {}

// Series implements Recorder.
func (Discard) Series(string, []float64) {}

// Distribution implements Recorder.
func (Discard) Distribution(_, _ string) {}

// Applied implements Recorder: it returns Attest's error.
func (Discard) Applied(want Spec, got Applied) error { return Attest(want, got) }

// Note implements Recorder.
func (Discard) Note(string) {}

// Part implements Recorder.
func (Discard) Part(PartOutcome) {}

// Stages implements Recorder.
func (Discard) Stages(string, []Stage) {}

// A Span is a stretch of time on a Clock.
type Span struct{ Begin, End time.Duration }

// Duration is how long the span is.
func (s Span) Duration() time.Duration { return s.End - s.Begin }
