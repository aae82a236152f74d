package http

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/supervise/capacity"
)

// Calibrate implements bench.Calibrator: it measures the capacity of the cell if the rate is a
// share, unless the run was resumed and has a rate.
func (w workload) Calibrate(ctx context.Context, t bench.Task) error {
	return capacity.Calibrate(ctx, t, Name, Offered, func(ctx context.Context) (float64, error) {
		s, err := w.newFixture(ctx, t)
		if err != nil {
			return 0, err
		}
		most, err := s.measureCapacity(ctx)
		return most, errors.Join(err, s.contentDir.remove())
	})
}

// measureCapacity measures the capacity of the cell: it runs the closed loop briefly, several
// times, and keeps nothing else.
func (s *fixture) measureCapacity(ctx context.Context) (most float64, err error) {
	closed := *s
	closed.task.Params = maps.Clone(s.task.Params)
	closed.task.Params["rate"], closed.task.Params["time"] = "0", capacity.TryTime(s.task.Params["time"]).String()
	if err := closed.Reset(ctx); err != nil {
		return 0, err
	}
	var clock supervise.SetupClock
	defer func() { err = errors.Join(err, clock.Err()) }()
	r := &capacity.Recorder{Metric: Rate}
	sink := supervise.PartSink{Recorder: r, Err: func(err error) error { r.TryEnded(err); return ctx.Err() }}
	all, sinks := make(batch, capacity.Tries), make([]supervise.PartSink, capacity.Tries)
	for i := range all {
		all[i], sinks[i] = &closed, sink
	}
	err = all.Work(ctx, bench.MeterOf(&clock, r), sinks)
	most, failed := r.Capacity()
	return most, cmp.Or(err, failed)
}
