package lifecycle

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A lane takes one container after the other through its lifecycle. It is the Clock of
// these lifecycles, because the trial's own Clock is for one goroutine, and ends the
// whole trial when a step takes too long.
type lane struct {
	bench.Clock               // the trial's; only Now is used
	limit       time.Duration // of one operation; 0 = none
	timer       *time.Timer   // ends the current container's life when an operation takes too long; nil without a limit

	ctx context.Context // of the current container's life; Step checks it

	steps map[string][]float64 // times of the current container's steps, by name
	at    string               // the current step

	times               map[string][]float64 // of containers that succeeded: one value each, by metric
	series              map[string][]float64 // of containers that succeeded: every step
	completed, failures int
	exitedEarly         bool           // some process had already ended before stop or kill
	failedAt            map[string]int // number of failed containers, by step
	why                 error          // the first failure
	failed              error          // the first clean-up that failed
}

func newLane(trial bench.Clock, limit time.Duration) *lane {
	return &lane{
		Clock: trial, limit: limit, times: map[string][]float64{}, series: map[string][]float64{}, failedAt: map[string]int{},
	}
}

// run takes containers through their lifecycles, one after the other.
func (l *lane) run(ctx context.Context, t bench.Task, iterations int) {
	for range iterations {
		if ctx.Err() != nil {
			return
		}
		l.steps, l.at = map[string][]float64{}, ""
		found, err := l.runOnce(ctx, t, nil)
		if err != nil {
			l.fail(err)
			continue
		}
		l.addTimes(found)
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

// addTimes stores the times of a container that succeeded. A metric that spans several steps
// is a series of its own. First is dropped: the output was read only to know when the
// container is ready, and the note about its clock is missing.
func (l *lane) addTimes(found map[string]float64) {
	l.completed++
	delete(found, First)
	for name, all := range l.steps {
		l.series[name] = append(l.series[name], all...)
	}
	for name, v := range found {
		l.times[name] = append(l.times[name], v)
		if l.steps[name] == nil {
			l.series[name] = append(l.series[name], v)
		}
	}
}

// runOnce takes one container through its lifecycle, and returns the values by metric. If
// an operation reaches its time limit, this container fails, and the others of the trial
// continue. attest is as in life.
func (l *lane) runOnce(
	ctx context.Context, t bench.Task, attest func(bench.Spec, bench.Applied) error,
) (map[string]float64, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l.ctx = ctx
	if l.limit > 0 {
		l.timer = time.AfterFunc(math.MaxInt64, func() { end(fmt.Errorf("%w of %v", bench.ErrOpTime, l.limit)) })
		defer l.timer.Stop()
	}
	life, err := newLifecycleRun(ctx, t)
	if err != nil {
		return nil, err
	}
	life.clock, life.attest, life.listens = l, attest, attest != nil || life.marks && life.sequence.holds()
	err = life.run(ctx)
	l.exitedEarly = l.exitedEarly || life.exitedEarly
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = &bench.OpError{Op: l.at, Err: cause} // replaces the engine's error about an ended context
	}
	return life.values, err
}

// Step implements bench.Clock.
func (l *lane) Step(name string, op func() error) (bench.Span, error) {
	l.at = name
	if l.timer != nil {
		l.timer.Reset(l.limit)
		defer l.timer.Stop()
	}
	begin := l.Now()
	err := op()
	end := l.Now()
	if err == nil && l.ctx.Err() != nil { // it succeeded, but after its time limit
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

// cleanupTime bounds the removal of a container that failed.
const cleanupTime = 15 * time.Second

// Cleanup implements bench.Clock.
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
