package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// cleanupTime is the longest time for one clean-up outside of trials.
const cleanupTime = time.Minute

// Outside is the Clock of what is done outside of trials, such as in Setup of a Fixture.
// Its steps have no limit but that of their own contexts. It is for one goroutine.
type Outside struct{ errs []error }

var _ bench.Clock = (*Outside)(nil)

// Now implements bench.Clock.
func (*Outside) Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("this kernel has no CLOCK_MONOTONIC: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// Step implements bench.Clock.
func (o *Outside) Step(name string, op func() error) (bench.Span, error) {
	begin := o.Now()
	if err := op(); err != nil {
		return bench.Span{}, &bench.OpError{Op: name, Err: err}
	}
	return bench.Span{Begin: begin, End: o.Now()}, nil
}

// Cleanup implements bench.Clock; its error is one of Err's.
func (o *Outside) Cleanup(op func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	err := op(ctx)
	if err != nil {
		err = op(ctx) // as in a trial, what fails is tried once more
	}
	if err != nil {
		o.errs = append(o.errs, fmt.Errorf("clean-up: %w", err))
	}
}

// Err is what could not be cleaned up so far; nil if all could.
func (o *Outside) Err() error { return errors.Join(o.errs...) }
