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

// shareOf reads a rate that is a part of what the slowest cell of those compared can
// do, such as "70%".
func shareOf(rate string) (share float64, ok bool) {
	number, ok := strings.CutSuffix(rate, "%")
	percent, err := strconv.ParseUint(number, 10, 8)
	return float64(percent) / 100, ok && err == nil && percent >= 1 && percent <= 100
}

// capacities is what the slowest cell can do of those that are compared with one
// another, in good answers per second, by their condition: whatever option differs
// between them, they get the same rate.
type capacities struct {
	mu     sync.Mutex
	lowest map[string]float64
	kept   map[part]float64 // the rates of a resumed run, in requests per second: it goes on with them
}

// A part is a share of the capacity in a condition.
type part struct {
	condition string
	share     float64
}

func newCapacities() *capacities {
	return &capacities{lowest: map[string]float64{}, kept: map[part]float64{}}
}

// capacitiesOf are those of a task's run.
func capacitiesOf(t bench.Task) *capacities {
	// Making them cannot fail.
	all, _ := bench.InCommon(t.Common, "http capacities", func() (*capacities, error) { return newCapacities(), nil })
	return all
}

// learn takes in what one cell can do.
func (c *capacities) learn(condition string, capacity float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.lowest[condition]; !ok || capacity < known {
		c.lowest[condition] = capacity
	}
}

// keep takes in what a share was before the run was resumed.
func (c *capacities) keep(condition string, share, rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[part{condition, share}] = rate
}

// rate is a share of the capacity, in requests per second.
func (c *capacities) rate(condition string, share float64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	rate, ok := c.kept[part{condition, share}]
	if !ok {
		rate = max(1, math.Floor(share*c.lowest[condition]))
	}
	return strconv.FormatFloat(rate, 'f', -1, 64)
}

// A cell's capacity is tried several times, and the least counts: one try may fall
// into a moment in which the machine does more than it does for long. A moment in
// which it answered nothing is no capacity.
const (
	tries       = 5
	shortestTry = 100 * time.Millisecond
)

// Learn implements bench.Learner: it finds out what the cell can do where that decides
// the rate, unless the run was resumed and has one.
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

// rehearse finds out what the cell can do: its closed loop for a moment, several
// times, of which nothing is kept.
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
		return fmt.Errorf("what it can do at most: %w", err)
	}
	capacitiesOf(s.task).learn(s.task.Condition, r.least)
	return nil
}

// tryTime is how long a try takes: all together take as long as a trial.
func tryTime(trial string) time.Duration {
	d, _ := time.ParseDuration(trial) // was held to its rule
	return max(d/tries, shortestTry)
}

// A rehearsal is a Recorder that keeps nothing but the least rate above zero.
type rehearsal struct {
	bench.Discard
	least  float64 // 0 = none
	failed []error // of the tries that did
}

// hear is told how a try has ended.
func (r *rehearsal) hear(err error) {
	if err != nil {
		r.failed = append(r.failed, err)
	}
}

// verdict is the error of a cell that was not seen to do anything for long: what few
// tries found would be the rate of every cell. On a busy machine one may fail.
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
