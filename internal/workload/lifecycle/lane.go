package lifecycle

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A lane takes one container after the other through its life. It is the Meter
// of these lives: a trial's own is for one goroutine, and has one value for
// each metric.
type lane struct {
	parent bench.Meter
	attest bool          // look at what was applied and pass it on, and keep no times
	limit  time.Duration // of one operation; 0 = none
	timer  *time.Timer   // ends the life under way when an operation takes too long; nil without a limit

	ctx context.Context // of the life under way, which Step holds its operations to

	one   map[string]float64   // of the life under way, in seconds
	steps map[string][]float64 // of the life under way, each by itself
	at    string               // the step that it is at

	times             map[string][]float64 // of lives that came through: one each for a metric
	series            map[string][]float64 // of lives that came through: every step
	through, failures int
	early             bool           // some process had ended before it was to be ended
	failedAt          map[string]int // lives that failed, by step
	why               error          // of the first failure
	failed            error          // the first clean-up that failed
}

func newLane(parent bench.Meter, limit time.Duration) *lane {
	return &lane{parent: parent, limit: limit, times: map[string][]float64{}, series: map[string][]float64{}, failedAt: map[string]int{}}
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

// live takes one container through its life, which ends early when an
// operation meets its time limit: the other containers of the trial go on.
func (l *lane) live(ctx context.Context, t bench.Task) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l.ctx = ctx
	if l.limit > 0 {
		l.timer = time.AfterFunc(math.MaxInt64, func() { end(fmt.Errorf("%w of %v", bench.ErrOpTime, l.limit)) })
		defer l.timer.Stop()
	}
	life, err := newLife(ctx, t)
	if err != nil {
		return err
	}
	life.meter, life.looks, life.listens = l, l.attest, l.attest || life.marks && life.sequence.holds()
	err = life.run(ctx)
	l.early = l.early || life.early
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return &bench.OpError{Op: l.at, Err: cause} // instead of the foreign words that an engine has for it
	}
	return err
}

// Now implements bench.Meter.
func (l *lane) Now() time.Duration { return l.parent.Now() }

// Step implements bench.Meter.
func (l *lane) Step(name string, op func() error) (bench.Span, error) {
	l.at = name
	if l.timer != nil {
		l.timer.Reset(l.limit)
		defer l.timer.Stop()
	}
	begin := l.Now()
	err := op()
	end := l.Now()
	if err == nil && l.ctx.Err() != nil { // it came back although its time was up
		err = context.Cause(l.ctx)
	}
	if err != nil {
		return bench.Span{}, &bench.OpError{Op: name, Err: err}
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
func (l *lane) Distribution(string, string) {} // what happens to containers is counted one by one
func (l *lane) Series(string, []float64)    {}

// Applied implements bench.Meter.
func (l *lane) Applied(want bench.Spec, got bench.Applied) error {
	if l.attest {
		return l.parent.Applied(want, got)
	}
	return bench.Attest(want, got)
}

// Note implements bench.Meter: what a life notes of its mark is of no use without
// that, and the rest is for the trial to note.
func (l *lane) Note(string) {}

// Part implements bench.Meter: a lane has none.
func (l *lane) Part(bench.PartOutcome) {}

// SystemCalls implements bench.Meter.
func (l *lane) SystemCalls(pid int) float64 { return l.parent.SystemCalls(pid) }

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
		l.failed = &bench.OpError{Op: "clean-up", Err: err}
	}
}
