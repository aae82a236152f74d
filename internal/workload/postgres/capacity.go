package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/supervise/capacity"
)

// Calibrate implements bench.Calibrator: it measures the capacity of the cell for part load if the
// rate is a share, unless the run was resumed and has a rate.
func (w workload) Calibrate(ctx context.Context, t bench.Task) error {
	return capacity.Calibrate(ctx, t, Name, partLoad+"."+offered, func(ctx context.Context) (float64, error) {
		f, err := w.newFixture(ctx, t)
		if err != nil {
			return 0, err
		}
		most, err := f.measureCapacity(ctx)
		return most, errors.Join(err, f.Remove(ctx))
	})
}

// measureCapacity measures the capacity of the cell: in place of its parts, a trial of its own has
// part load several times, in the closed loop.
func (f *fixture) measureCapacity(ctx context.Context) (most float64, err error) {
	i := slices.IndexFunc(f.options.parts, func(p part) bool { return p.name == partLoad })
	if i < 0 {
		return 0, errors.New("there is no part load") // CheckParams has refused it
	}
	try := f.options.parts[i]
	try.rate, try.time = "0", capacity.TryTime(try.time).String()
	closed := *f
	closed.options.parts = slices.Repeat([]part{try}, capacity.Tries)
	if err := closed.Reset(ctx); err != nil {
		return 0, err
	}
	var clock supervise.SetupClock
	defer func() { err = errors.Join(err, clock.Err()) }()
	r := &capacity.Recorder{Metric: partLoad + "." + Rate}
	err = closed.trial(ctx, f.task.Seed, bench.MeterOf(&clock, r))
	most, failed := r.Capacity()
	return most, cmp.Or(err, failed)
}
