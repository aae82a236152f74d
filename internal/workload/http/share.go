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

// shareOf reads a rate that is a share of the capacity of the slowest compared cell,
// such as "70%".
func shareOf(rate string) (share float64, ok bool) {
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
	kept   map[part]float64 // the rates before a resumption, in requests per second, which are used again
}

// A part is a share of the capacity in a condition.
type part struct {
	condition string
	share     float64
}

func newCapacities() *capacities {
	return &capacities{lowest: map[string]float64{}, kept: map[part]float64{}}
}

// capacitiesOf returns the capacities of a task's run.
func capacitiesOf(t bench.Task) *capacities {
	// Making it cannot fail.
	all, _ := bench.InCommon(t.Common, "http capacities", func() (*capacities, error) { return newCapacities(), nil })
	return all
}

// learn takes the capacity of one cell into account.
func (c *capacities) learn(condition string, capacity float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.lowest[condition]; !ok || capacity < known {
		c.lowest[condition] = capacity
	}
}

// keep sets the rate that a share had before the run was resumed.
func (c *capacities) keep(condition string, share, rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[part{condition, share}] = rate
}

// rate returns the rate of a share, in requests per second.
func (c *capacities) rate(condition string, share float64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	rate, ok := c.kept[part{condition, share}]
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

// Learn implements bench.Learner: it measures the capacity of the cell if the rate is a
// share, unless the run was resumed and has a rate.
func (w workload) Learn(ctx context.Context, t bench.Task) error {
	share, ok := shareOf(t.Params["rate"])
	if !ok {
		return nil
	}
	if t.Earlier != nil {
		if rate, ok := t.Earlier(Offered); ok {
			capacitiesOf(t).keep(t.Condition, share, rate)
			return nil
		}
	}
	s, err := w.stage(ctx, t)
	if err != nil {
		return err
	}
	return errors.Join(s.rehearse(ctx), s.site.remove())
}

// rehearse measures the capacity of the cell: it runs the closed loop briefly, several
// times, and keeps nothing else.
func (s *stage) rehearse(ctx context.Context) (err error) {
	closed := *s
	closed.task.Params = maps.Clone(s.task.Params)
	closed.task.Params["rate"], closed.task.Params["time"] = "0", tryTime(s.task.Params["time"]).String()
	if err := closed.Reset(ctx); err != nil {
		return err
	}
	var clock supervise.Outside
	defer func() { err = errors.Join(err, clock.Err()) }()
	r := &rehearsal{}
	listener := supervise.Listener{Recorder: r, Err: func(err error) error { r.hear(err); return ctx.Err() }}
	all, listeners := make(turns, tries), make([]supervise.Listener, tries)
	for i := range all {
		all[i], listeners[i] = &closed, listener
	}
	if err := cmp.Or(all.Work(ctx, bench.MeterOf(&clock, r), listeners), r.verdict()); err != nil {
		return fmt.Errorf("measure the capacity: %w", err)
	}
	capacitiesOf(s.task).learn(s.task.Condition, r.least)
	return nil
}

// tryTime is the length of one try: all tries together take as long as a trial.
func tryTime(trial string) time.Duration {
	d, _ := time.ParseDuration(trial) // was validated
	return max(d/tries, shortestTry)
}

// A rehearsal is a Recorder that keeps only the lowest rate above zero.
type rehearsal struct {
	bench.Discard
	least  float64 // 0 = none
	failed []error // of the tries that failed
}

// hear takes the error of a try; nil if it succeeded.
func (r *rehearsal) hear(err error) {
	if err != nil {
		r.failed = append(r.failed, err)
	}
}

// verdict returns an error if too few tries succeeded: their result would be the rate of
// every cell. On a busy machine, some tries may fail.
func (r *rehearsal) verdict() error {
	switch n := len(r.failed); {
	case n > tries/2:
		return fmt.Errorf("%d of %d tries failed, the first: %w", n, tries, r.failed[0])
	case r.least > 0:
		return nil
	case n > 0:
		return r.failed[0]
	default:
		return errors.New("no good answer came in time")
	}
}

// Record implements bench.Recorder.
func (r *rehearsal) Record(metric string, value float64) {
	if metric == Rate && value > 0 && (r.least == 0 || value < r.least) {
		r.least = value
	}
}
