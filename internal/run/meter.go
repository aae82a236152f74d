package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// cleanupTime is the time limit of one clean-up.
const cleanupTime = 20 * time.Second

var errTrialLimit = errors.New("the trial reached its time limit")

// meter is the bench.Meter of one trial. Step allocates nothing.
type meter struct {
	ctx    context.Context // the trial's; kept because the time limit of an operation ends it and Cleanup outlives it
	cancel context.CancelCauseFunc
	clock  func() time.Duration
	limit  time.Duration
	timer  *time.Timer   // ends the trial when an operation takes too long
	plant  time.Duration // by which a start is delayed on purpose
	traced bool          // the trial is run for its trace
	ends   []stepEnd     // of steps, in a traced trial
	stages []bench.TraceEvent

	known         map[string]bool // codes of known notes; nil = all
	index         map[string]int
	values        []float64
	series        []bench.Series
	seriesRoom    int // for further values of series
	distributions []bench.Distribution
	applied       *bench.Applied
	notes         []string
	parts         []bench.PartOutcome
	counted       time.Duration // between the two readings of the host's counters
	misuseErr     error         // the first wrong call by the workload
	cleanup       error         // the first failure of a clean-up
	stuck         bool
}

var _ bench.Meter = (*meter)(nil)

func newMeter(ctx context.Context, clock func() time.Duration, limit time.Duration, metrics []bench.Metric) *meter {
	ctx, cancel := context.WithCancelCause(ctx)
	m := &meter{
		ctx: ctx, cancel: cancel, clock: clock, limit: limit,
		index:      make(map[string]int, len(metrics)),
		values:     make([]float64, len(metrics)),
		seriesRoom: bench.MaxSeriesValues,
	}
	for i, metric := range metrics {
		m.index[metric.Name] = i
		m.values[i] = math.NaN()
	}
	m.timer = time.AfterFunc(math.MaxInt64, func() { cancel(bench.ErrOpTime) })
	return m
}

// errLost ends a trial whose containers are on a machine that tare cannot reach any more.
var errLost = errors.New("the connection to the machine with the containers was lost")

// endWith ends the trial when lost is closed, until stop is called.
func (m *meter) endWith(lost <-chan struct{}) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-lost:
			m.cancel(errLost)
		case <-done:
		}
	}()
	return func() { close(done) }
}

// stop releases the timers.
func (m *meter) stop() {
	m.timer.Stop()
	m.cancel(nil)
}

// abandon marks the meter as still in use by a workload that does not return.
func (m *meter) abandon() { m.stuck = true }

// Now implements bench.Clock.
func (m *meter) Now() time.Duration { return m.clock() }

// Step implements bench.Clock. An operation that succeeds after the trial has ended
// counts as failed.
func (m *meter) Step(name string, op func() error) (bench.Span, error) {
	m.timer.Reset(m.limit)
	begin := m.clock()
	if m.plant > 0 && name == opStart {
		m.spin(begin + m.plant)
	}
	err := op()
	end := m.clock()
	if m.traced {
		m.ends = append(m.ends, stepEnd{end, syscall.Gettid()})
	}
	m.timer.Stop()
	if err == nil && m.ctx.Err() != nil {
		err = context.Cause(m.ctx)
	}
	if err != nil {
		return bench.Span{}, &bench.OpError{Op: name, Err: err}
	}
	return bench.Span{Begin: begin, End: end}, nil
}

// opStart is the operation that a plant delays.
const opStart = "start"

// spin waits without sleeping: what comes after a sleep takes longer than after work.
func (m *meter) spin(until time.Duration) {
	for m.clock() < until && m.ctx.Err() == nil {
	}
}

// Record implements bench.Recorder.
func (m *meter) Record(metric string, value float64) {
	i, ok := m.index[metric]
	switch {
	case !ok:
		m.setMisuse(fmt.Errorf("the workload reports %q, which it does not declare", metric))
	case !math.IsNaN(m.values[i]):
		m.setMisuse(fmt.Errorf("the workload reports %q twice", metric))
	case math.IsNaN(value) || math.IsInf(value, 0):
		m.setMisuse(fmt.Errorf("the workload reports %v for %q", value, metric))
	default:
		m.values[i] = value
	}
}

// Series implements bench.Recorder.
func (m *meter) Series(metric string, values []float64) {
	switch {
	case slices.ContainsFunc(m.series, func(s bench.Series) bool { return s.Metric == metric }):
		m.setMisuse(fmt.Errorf("the workload reports the series of %q twice", metric))
	case slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }):
		m.setMisuse(fmt.Errorf("the workload reports a value in the series of %q that is not finite", metric))
	case len(values) > m.seriesRoom && !slices.Contains(m.notes, bench.NoteSeriesLeftOut):
		m.Note(bench.NoteSeriesLeftOut)
	case len(values) > 0 && len(values) <= m.seriesRoom:
		m.series = append(m.series, bench.Series{Metric: metric, Values: slices.Clone(values)})
		m.seriesRoom -= len(values)
	}
}

// Distribution implements bench.Recorder.
func (m *meter) Distribution(metric, hdr string) {
	switch {
	case slices.ContainsFunc(m.distributions, func(d bench.Distribution) bool { return d.Metric == metric }):
		m.setMisuse(fmt.Errorf("the workload reports the distribution of %q twice", metric))
	case len(hdr) == 0 || len(hdr) > bench.MaxHDR || len(m.distributions) == bench.MaxDistributions:
		m.setMisuse(fmt.Errorf("the workload reports a distribution of %q that cannot be kept: %d bytes, after %d others",
			metric, len(hdr), len(m.distributions)))
	default:
		m.distributions = append(m.distributions, bench.Distribution{Metric: metric, HDR: hdr})
	}
}

func (m *meter) setMisuse(err error) {
	if m.misuseErr == nil {
		m.misuseErr = err
	}
}

// Applied implements bench.Recorder.
func (m *meter) Applied(want bench.Spec, got bench.Applied) error {
	m.applied = &got
	return bench.Attest(want, got)
}

// Note implements bench.Recorder.
func (m *meter) Note(code string) {
	if m.known != nil && !m.known[code] {
		m.setMisuse(fmt.Errorf("the workload attaches note %q, which it does not declare", code))
		return
	}
	m.notes = append(m.notes, code)
}

// A stepEnd is when a step ended, and in which thread.
type stepEnd struct {
	at     time.Duration
	thread int
}

// Stages implements bench.Recorder.
func (m *meter) Stages(metric string, stages []bench.Stage) {
	if !m.traced {
		return
	}
	for _, s := range stages {
		e := bench.TraceEvent{At: s.Begin, Name: bench.StageEvent, Source: metric, Attributes: []bench.Label{
			{Key: bench.StageName, Value: s.Name},
			{Key: bench.StageLength, Value: strconv.FormatInt(s.Duration().Nanoseconds(), 10)},
		}}
		i := slices.IndexFunc(m.ends, func(e stepEnd) bool { return e.at == s.End })
		switch {
		case s.Inside:
			e.Attributes = append(e.Attributes, bench.Label{Key: bench.StageInside, Value: "true"})
		case i >= 0:
			e.Attributes = append(e.Attributes, bench.Label{Key: bench.StageThread, Value: strconv.Itoa(m.ends[i].thread)})
		}
		if s.Polled {
			e.Attributes = append(e.Attributes, bench.Label{Key: bench.StagePolled, Value: "true"})
		}
		m.stages = append(m.stages, e)
	}
}

// stageEvents are the stages since a sample began.
func (m *meter) stageEvents(began time.Duration) []bench.TraceEvent {
	for i := range m.stages {
		m.stages[i].At -= began
	}
	return m.stages
}

// Part implements bench.Recorder.
func (m *meter) Part(p bench.PartOutcome) { m.parts = append(m.parts, p) }

// Cleanup implements bench.Clock. It retries once: a daemon that was busy with a
// failed start may have finished.
func (m *meter) Cleanup(op func(ctx context.Context) error) {
	err := m.cleanUp(op)
	if err != nil {
		err = m.cleanUp(op)
	}
	if err != nil && m.cleanup == nil {
		m.cleanup = &bench.OpError{Op: "clean-up", Err: err}
	}
}

func (m *meter) cleanUp(op func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), cleanupTime)
	defer cancel()
	return op(ctx)
}

// conclude fills in how the trial ended. The run's context tells whether the user
// ended the trial, or its time was over.
func (m *meter) conclude(s *bench.Sample, run context.Context, err error) {
	if m.stuck {
		// The workload may still write to the meter: take nothing from it.
		s.Outcome, s.Reason = bench.TimedOut, bench.Reason(err.Error())
		return
	}
	s.Applied, s.Notes, s.Parts = m.applied, m.notes, m.parts
	if err == nil {
		err = errors.Join(m.misuseErr, m.cleanup)
	}
	if err == nil {
		s.Outcome, s.Values, s.Series, s.Distributions = bench.OK, m.values, m.series, m.distributions
		s.Counted = m.counted
		return
	}
	s.Outcome = bench.Failed
	switch cause := context.Cause(m.ctx); {
	case errors.Is(cause, bench.ErrOpTime), errors.Is(cause, errTrialLimit):
		s.Outcome = bench.TimedOut
		err = m.limitError(err, cause)
	case errors.Is(cause, errLost):
		err = m.limitError(err, cause)
	case run.Err() != nil:
		s.Outcome = bench.Canceled
	case errors.Is(err, bench.ErrOpTime): // the workload limits concurrent operations itself
		s.Outcome = bench.TimedOut
	}
	if m.cleanup != nil && !errors.Is(err, m.cleanup) {
		err = fmt.Errorf("%w; then %w", err, m.cleanup)
	}
	s.Reason = bench.Reason(err.Error())
	var op *bench.OpError
	if errors.As(err, &op) {
		s.Operation = op.Op
	}
}

// limitError replaces the engine's error about an ended context by what ended the trial.
func (m *meter) limitError(err, cause error) error {
	var op *bench.OpError
	name := "trial"
	if errors.As(err, &op) {
		name = op.Op
	}
	if errors.Is(cause, bench.ErrOpTime) {
		return &bench.OpError{Op: name, Err: fmt.Errorf("%w of %v", cause, m.limit)}
	}
	return &bench.OpError{Op: name, Err: cause}
}

// Monotonic returns CLOCK_MONOTONIC as a function that needs no system call: the
// clock of the Go runtime, shifted to the kernel's origin. It reads one clock between
// two readings of the other, several times, and takes the closest pair, so that both
// agree to well below a microsecond.
func Monotonic() func() time.Duration {
	const readings = 10
	var base time.Time
	var origin, tightest time.Duration
	for i := range readings {
		before := clockGettime()
		now := time.Now()
		after := clockGettime()
		if width := after - before; i == 0 || width < tightest {
			base, origin, tightest = now, before+width/2, width
		}
	}
	return func() time.Duration { return origin + time.Since(base) }
}

// nullOperation measures an empty operation through a meter: the median of
// 1,000.
func nullOperation(clock func() time.Duration) time.Duration {
	const rounds = 1000
	m := newMeter(context.Background(), clock, time.Minute, nil)
	defer m.stop()
	nothing := func() error { return nil }
	return medianOf(rounds, func() time.Duration {
		begin := clock()
		_, _ = m.Step("", nothing) // nothing cannot fail
		return clock() - begin
	})
}
