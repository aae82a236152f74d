package http

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// parseShare reads a rate that is a share of the capacity of the slowest compared cell,
// such as "70%".
func parseShare(rate string) (share float64, ok bool) {
	number, ok := strings.CutSuffix(rate, "%")
	percent, err := strconv.ParseUint(number, 10, 8)
	return float64(percent) / 100, ok && err == nil && percent >= 1 && percent <= 100
}

// capacities holds, by condition, the capacity of the slowest compared cell, in good
// answers per second. So all cells of a condition get the same rate, whatever options
// differ between them.
type capacities struct {
	mu     sync.Mutex
	lowest map[string]float64
	rates  map[shareKey]float64 // the rates before a resumption, in requests per second, which are used again
}

// A shareKey is a share of the capacity in a condition.
type shareKey struct {
	condition string
	share     float64
}

func newCapacities() *capacities {
	return &capacities{lowest: map[string]float64{}, rates: map[shareKey]float64{}}
}

// capacitiesOf returns the capacities of a task's run.
func capacitiesOf(t bench.Task) *capacities {
	// Making it cannot fail.
	all, _ := bench.GetCommon(t.Common, "http capacities", func() (*capacities, error) { return newCapacities(), nil })
	return all
}

// add takes the capacity of one cell into account.
func (c *capacities) add(condition string, capacity float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.lowest[condition]; !ok || capacity < known {
		c.lowest[condition] = capacity
	}
}

// setRate sets the rate that a share had before the run was resumed.
func (c *capacities) setRate(condition string, share, rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rates[shareKey{condition, share}] = rate
}

// rate returns the rate of a share, in requests per second.
func (c *capacities) rate(condition string, share float64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	rate, ok := c.rates[shareKey{condition, share}]
	if !ok {
		rate = max(1, math.Floor(share*c.lowest[condition]))
	}
	return strconv.FormatFloat(rate, 'f', -1, 64)
}

// A cell's capacity is measured several times, and the lowest counts: for a moment, a
// machine may do more than it can sustain. A try without any answer does not count.
const (
	tries       = 5
	shortestTry = 100 * time.Millisecond
)

// Calibrate implements bench.Calibrator: it measures the capacity of the cell if the rate is a
// share, unless the run was resumed and has a rate.
func (w workload) Calibrate(ctx context.Context, t bench.Task) error {
	share, ok := parseShare(t.Params["rate"])
	if !ok {
		return nil
	}
	if t.EarlierValue != nil {
		if rate, ok := t.EarlierValue(Offered); ok {
			capacitiesOf(t).setRate(t.Condition, share, rate)
			return nil
		}
	}
	s, err := w.newFixture(ctx, t)
	if err != nil {
		return err
	}
	return errors.Join(s.measureCapacity(ctx), s.contentDir.remove())
}

// measureCapacity measures the capacity of the cell: it runs the closed loop briefly, several
// times, and keeps nothing else.
func (s *fixture) measureCapacity(ctx context.Context) (err error) {
	closed := *s
	closed.task.Params = maps.Clone(s.task.Params)
	closed.task.Params["rate"], closed.task.Params["time"] = "0", tryDuration(s.task.Params["time"]).String()
	if err := closed.Reset(ctx); err != nil {
		return err
	}
	var clock supervise.SetupClock
	defer func() { err = errors.Join(err, clock.Err()) }()
	r := &capacityRecorder{}
	sink := supervise.PartSink{Recorder: r, Err: func(err error) error { r.tryEnded(err); return ctx.Err() }}
	all, sinks := make(batch, tries), make([]supervise.PartSink, tries)
	for i := range all {
		all[i], sinks[i] = &closed, sink
	}
	if err := cmp.Or(all.Work(ctx, bench.MeterOf(&clock, r), sinks), r.err()); err != nil {
		return fmt.Errorf("measure the capacity: %w", err)
	}
	capacitiesOf(s.task).add(s.task.Condition, r.lowest)
	return nil
}

// tryDuration is the length of one try: all tries together take as long as a trial.
func tryDuration(trial string) time.Duration {
	d, _ := time.ParseDuration(trial) // was validated
	return max(d/tries, shortestTry)
}

// A capacityRecorder is a Recorder that keeps only the lowest rate above zero.
type capacityRecorder struct {
	bench.Discard
	lowest float64 // 0 = none
	failed []error // of the tries that failed
}

// tryEnded takes the error of a try; nil if it succeeded.
func (r *capacityRecorder) tryEnded(err error) {
	if err != nil {
		r.failed = append(r.failed, err)
	}
}

// err returns an error if too few tries succeeded: their result would be the rate of
// every cell. On a busy machine, some tries may fail.
func (r *capacityRecorder) err() error {
	switch n := len(r.failed); {
	case n > tries/2:
		return fmt.Errorf("%d of %d tries failed, the first: %w", n, tries, r.failed[0])
	case r.lowest > 0:
		return nil
	case n > 0:
		return r.failed[0]
	default:
		return errors.New("no good answer came in time")
	}
}

// Record implements bench.Recorder.
func (r *capacityRecorder) Record(metric string, value float64) {
	if metric == Rate && value > 0 && (r.lowest == 0 || value < r.lowest) {
		r.lowest = value
	}
}
