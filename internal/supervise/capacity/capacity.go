// Package capacity gives loads a rate that is a share of what the slowest compared cell can do.
//
// Latency means something only at a rate that all cells can sustain, and nobody knows that rate in
// advance. So each cell is tried before the first trial (Calibrate), and all cells of a condition get
// the same share of the least that one of them can do (Rates.Of).
package capacity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// ParseShare reads a rate that is a share of the capacity of the slowest compared cell, such as
// "70%".
func ParseShare(rate string) (share float64, ok bool) {
	number, ok := strings.CutSuffix(rate, "%")
	percent, err := strconv.ParseUint(number, 10, 8)
	return float64(percent) / 100, ok && err == nil && percent >= 1 && percent <= 100
}

// IsShare reports whether a rate is a share.
func IsShare(rate string) bool {
	_, ok := ParseShare(rate)
	return ok
}

// ValidRate returns the check of a rate that is a share, or what absolute takes.
func ValidRate(absolute func(string) error) func(string) error {
	return func(rate string) error {
		switch {
		case IsShare(rate):
			return nil
		case strings.HasSuffix(rate, "%"):
			return fmt.Errorf("%.40q is not a whole share from 1%% to 100%%", rate)
		}
		return absolute(rate)
	}
}

// Rates holds, by condition, the capacity of the slowest compared cell, in operations per second.
// So all cells of a condition get the same rate, whatever options differ between them. Its
// methods may be called concurrently.
type Rates struct {
	mu     sync.Mutex
	lowest map[string]float64
	before map[shareKey]float64 // the rates before a resumption, in operations per second, which are used again
}

// A shareKey is a share of the capacity in a condition.
type shareKey struct {
	condition string
	share     float64
}

func newRates() *Rates {
	return &Rates{lowest: map[string]float64{}, before: map[shareKey]float64{}}
}

// RatesOf returns the rates of a workload in a task's run.
func RatesOf(t bench.Task, workload string) *Rates {
	// Making it cannot fail.
	all, _ := bench.GetCommon(t.Common, workload+" capacities", func() (*Rates, error) { return newRates(), nil })
	return all
}

// add takes the capacity of one cell into account.
func (r *Rates) add(condition string, capacity float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.lowest[condition]; !ok || capacity < known {
		r.lowest[condition] = capacity
	}
}

// keep sets the rate that a share had before the run was resumed.
func (r *Rates) keep(condition string, share, rate float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before[shareKey{condition, share}] = rate
}

// Of returns the rate of a share, in operations per second. Any other rate is returned as it is.
func (r *Rates) Of(condition, rate string) string {
	share, ok := ParseShare(rate)
	if !ok {
		return rate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	value, ok := r.before[shareKey{condition, share}]
	if !ok {
		value = max(1, math.Floor(share*r.lowest[condition]))
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}

// Calibrate does the work of bench.Calibrator for a workload: if the option rate is a share, it has
// the capacity of the cell measured, unless the run was resumed and has a rate, as its metric
// offered tells.
func Calibrate(
	ctx context.Context, t bench.Task, workload, offered string, measure func(context.Context) (float64, error),
) error {
	share, ok := ParseShare(t.Params["rate"])
	if !ok {
		return nil
	}
	if t.EarlierValue != nil {
		if rate, ok := t.EarlierValue(offered); ok {
			RatesOf(t, workload).keep(t.Condition, share, rate)
			return nil
		}
	}
	capacity, err := measure(ctx)
	if err != nil {
		return fmt.Errorf("measure the capacity: %w", err)
	}
	RatesOf(t, workload).add(t.Condition, capacity)
	return nil
}

// Tries is how many times the capacity of a cell is measured. The lowest counts: for a moment, a
// machine may do more than it can sustain. A try without any answer does not count.
const Tries = 5

const shortestTry = 100 * time.Millisecond

// TryTime is the length of one try for trials that measure for some time, as options have it: all
// tries together take as long as a trial.
func TryTime(trial string) time.Duration {
	d, _ := time.ParseDuration(trial) // was validated
	return max(d/Tries, shortestTry)
}

// A Recorder is a bench.Recorder for the tries of one cell. It keeps only the lowest value of
// one metric above zero.
type Recorder struct {
	bench.Discard

	Metric string // the rate of a try

	lowest float64 // 0 = none
	failed []error // of the tries that failed
}

// Record implements bench.Recorder.
func (r *Recorder) Record(metric string, value float64) {
	if metric == r.Metric && value > 0 && (r.lowest == 0 || value < r.lowest) {
		r.lowest = value
	}
}

// Part implements bench.Recorder: a part that lacks values is a try that failed.
func (r *Recorder) Part(p bench.PartOutcome) { r.TryEnded(errors.New(p.Reason)) }

// TryEnded takes the error of a try; nil if it succeeded.
func (r *Recorder) TryEnded(err error) {
	if err != nil {
		r.failed = append(r.failed, err)
	}
}

// Capacity returns the lowest value. It returns an error if too few tries succeeded: their result
// would be the rate of every cell. On a busy machine, some tries may fail.
func (r *Recorder) Capacity() (float64, error) {
	switch n := len(r.failed); {
	case n > Tries/2:
		return 0, fmt.Errorf("%d of %d tries failed, the first: %w", n, Tries, r.failed[0])
	case r.lowest > 0:
		return r.lowest, nil
	case n > 0:
		return 0, r.failed[0]
	default:
		return 0, errors.New("no good answer came in time")
	}
}
