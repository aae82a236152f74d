package lifecycle

import (
	"context"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A lane takes one container after the other through its life. It is the Meter
// of these lives: a trial's own is for one goroutine, and has one value for
// each metric.
type lane struct {
	parent bench.Meter
	attest bool // pass on what was applied, and measure nothing

	one   map[string]float64   // of the life under way, in seconds
	steps map[string][]float64 // of the life under way, each by itself
	at    string               // the step that it is at

	times             map[string][]float64 // of lives that came through: one each for a metric
	series            map[string][]float64 // of lives that came through: every step
	through, failures int
	failedAt          map[string]int // lives that failed, by step
	why               error          // of the first failure
	failed            error          // the first clean-up that failed
}

func newLane(parent bench.Meter) *lane {
	return &lane{parent: parent, times: map[string][]float64{}, series: map[string][]float64{}, failedAt: map[string]int{}}
}

var _ bench.Meter = (*lane)(nil)

// run takes containers through their lives, one after the other.
func (l *lane) run(ctx context.Context, t bench.Task, iterations int) {
	for range iterations {
		if ctx.Err() != nil {
			return
		}
		l.one, l.steps, l.at = map[string]float64{}, map[string][]float64{}, ""
		if err := l.live(ctx, t); err != nil {
			l.fail(err)
			continue
		}
		l.keep()
	}
}

func (l *lane) fail(err error) {
	l.failures++
	if l.at != "" {
		l.failedAt[l.at]++
	}
	if l.why == nil {
		l.why = err
	}
}

// keep keeps the times of a life that came through. What spans several steps
// is a series of its own.
func (l *lane) keep() {
	l.through++
	for name, all := range l.steps {
		l.series[name] = append(l.series[name], all...)
	}
	for name, v := range l.one {
		l.times[name] = append(l.times[name], v)
		if l.steps[name] == nil {
			l.series[name] = append(l.series[name], v)
		}
	}
}

func (l *lane) live(ctx context.Context, t bench.Task) error {
	life, err := newLife(ctx, t)
	if err != nil {
		return err
	}
	life.meter, life.listens = l, life.marks && life.sequence.holds()
	return life.run(ctx)
}

// Now implements bench.Meter.
func (l *lane) Now() time.Duration { return l.parent.Now() }

// Step implements bench.Meter. The trial's time limit bounds it.
func (l *lane) Step(name string, op func() error) (bench.Span, error) {
	l.at = name
	begin := l.Now()
	err := op()
	end := l.Now()
	if err != nil {
		return bench.Span{}, &stepError{name, err}
	}
	if l.steps != nil {
		l.steps[name] = append(l.steps[name], (end - begin).Seconds())
	}
	return bench.Span{Begin: begin, End: end}, nil
}

// Span implements bench.Meter.
func (l *lane) Span(metric string, op func() error) (bench.Span, error) {
	span, err := l.Step(metric, op)
	if err == nil {
		l.Record(metric, span.Duration().Seconds())
	}
	return span, err
}

// Record implements bench.Meter. Output is taken only to know when a container
// is ready: the time of its first instruction would lack what a life notes.
func (l *lane) Record(metric string, value float64) {
	if l.one != nil && metric != First {
		l.one[metric] = value
	}
}

// Series implements bench.Meter: a lane is where the trial's come from.
func (l *lane) Series(string, []float64) {}

// Applied implements bench.Meter.
func (l *lane) Applied(want bench.Spec, got bench.Applied) error {
	if l.attest {
		return l.parent.Applied(want, got)
	}
	return bench.Attest(want, got)
}

// Note implements bench.Meter: what a life notes is of no use without its mark.
func (l *lane) Note(string) {}

// cleanupTime bounds the removal of a container that did not come through.
const cleanupTime = 15 * time.Second

// Cleanup implements bench.Meter.
func (l *lane) Cleanup(op func(ctx context.Context) error) {
	once := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
		defer cancel()
		return op(ctx)
	}
	err := once()
	if err != nil {
		err = once()
	}
	if err != nil && l.failed == nil {
		l.failed = &stepError{"clean-up", err}
	}
}

// A stepError is the error of an operation, with its name.
type stepError struct {
	op  string
	err error
}

func (e *stepError) Error() string { return e.op + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }
