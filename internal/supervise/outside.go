package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// cleanupTime is the time limit of one clean-up outside of trials.
const cleanupTime = time.Minute

// SetupClock is a Clock for use outside of trials, such as in Setup. Its steps have no time
// limit except that of their own contexts. It is for one goroutine.
type SetupClock struct{ errs []error }

var _ bench.Clock = (*SetupClock)(nil)

// Now implements bench.Clock.
func (*SetupClock) Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("this kernel has no CLOCK_MONOTONIC: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// Step implements bench.Clock.
func (o *SetupClock) Step(name string, op func() error) (bench.Span, error) {
	begin := o.Now()
	if err := op(); err != nil {
		return bench.Span{}, &bench.OpError{Op: name, Err: err}
	}
	return bench.Span{Begin: begin, End: o.Now()}, nil
}

// Cleanup implements bench.Clock; Err returns its error.
func (o *SetupClock) Cleanup(op func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	err := op(ctx)
	if err != nil {
		err = op(ctx) // one retry, as in a trial
	}
	if err != nil {
		o.errs = append(o.errs, fmt.Errorf("clean-up: %w", err))
	}
}

// Err returns the errors of all clean-ups so far; nil if there were none.
func (o *SetupClock) Err() error { return errors.Join(o.errs...) }
