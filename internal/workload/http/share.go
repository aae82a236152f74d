package http

import (
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
)

// shareOf reads a rate that is a part of what the slowest cell can do, such as
// "70%".
func shareOf(rate string) (share float64, ok bool) {
	number, ok := strings.CutSuffix(rate, "%")
	percent, err := strconv.ParseUint(number, 10, 8)
	return float64(percent) / 100, ok && err == nil && percent >= 1 && percent <= 100
}

// capacities is what the slowest cell of a run can do, in good answers per second,
// by the options that the cells have in common.
type capacities struct {
	mu     sync.Mutex
	lowest map[string]float64
}

func newCapacities() *capacities { return &capacities{lowest: map[string]float64{}} }

// learn takes in what one cell can do.
func (c *capacities) learn(params map[string]string, rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprint(params)
	if known, ok := c.lowest[key]; !ok || rate < known {
		c.lowest[key] = rate
	}
}

// rate is a share of that, in requests per second.
func (c *capacities) rate(params map[string]string, share float64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strconv.FormatFloat(max(1, math.Floor(share*c.lowest[fmt.Sprint(params)])), 'f', -1, 64)
}

// rehearse finds out what the cell can do: one trial of the closed loop, of which
// nothing is kept.
func (s *stage) rehearse(ctx context.Context) (err error) {
	closed := *s
	closed.task.Params = maps.Clone(s.task.Params)
	closed.task.Params["rate"] = "0"
	closed.task.Fixture = &closed
	if err := closed.Reset(ctx); err != nil {
		return err
	}
	m := &rehearsal{began: time.Now()}
	defer func() { err = errors.Join(err, m.clean(ctx)) }()
	if err := (workload{}).Run(ctx, closed.task, m); err != nil {
		return fmt.Errorf("what it can do at most: %w", err)
	}
	if !(m.rate > 0) {
		return errors.New("what it can do at most: no good answer came")
	}
	s.capacities.learn(s.task.Params, m.rate)
	return nil
}

// A rehearsal is a Meter that keeps nothing but the rate.
type rehearsal struct {
	began   time.Time
	rate    float64
	cleanup []func(context.Context) error
}

func (r *rehearsal) Now() time.Duration { return time.Since(r.began) }

func (r *rehearsal) Step(name string, op func() error) (bench.Span, error) {
	span := bench.Span{Begin: r.Now()}
	err := op()
	span.End = r.Now()
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return span, err
}

func (r *rehearsal) Span(metric string, op func() error) (bench.Span, error) {
	return r.Step(metric, op)
}

func (r *rehearsal) Record(metric string, value float64) {
	if metric == Rate {
		r.rate = value
	}
}

func (r *rehearsal) Series(string, []float64)                         {}
func (r *rehearsal) Distribution(_, _ string)                         {}
func (r *rehearsal) Note(string)                                      {}
func (r *rehearsal) SystemCalls(int) float64                          { return math.NaN() }
func (r *rehearsal) Applied(want bench.Spec, got bench.Applied) error { return bench.Attest(want, got) }

func (r *rehearsal) Cleanup(op func(ctx context.Context) error) { r.cleanup = append(r.cleanup, op) }

// clean removes what the rehearsal made, last made first.
func (r *rehearsal) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for i := len(r.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, r.cleanup[i](ctx))
	}
	return errors.Join(errs...)
}
