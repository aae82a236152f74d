package run

import (
	"context"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// healthyTimeout is how long the runner waits for an engine after one of its trials, or a
// part of one, has failed: systemd restarts containerd after 5 s.
const healthyTimeout = 15 * time.Second

// markUnhealthy notes that a trial of an engine, or a part of one, has failed, so the engine
// itself may be down. A trial that succeeds clears the doubt.
func (r *runner) markUnhealthy(s bench.Sample) {
	engine := r.plan.Cells[s.Trial.Cell].Engine
	if s.Outcome == bench.OK {
		delete(r.unhealthy, engine)
	}
	failed := s.Outcome == bench.Failed || s.Outcome == bench.TimedOut || s.PartFailed()
	if _, isUnhealthy := r.unhealthy[engine]; failed && !isUnhealthy {
		r.unhealthy[engine] = r.Clock() + healthyTimeout
	}
}

// awaitHealthy waits until an engine in doubt answers, before the trial's time limit
// begins. A daemon that restarts costs the trial in which it died; without the wait,
// the next trials would fail at once, and the runner would give up the cells. It waits
// only once for an engine that stays down; then the trials fail with their own errors.
func (r *runner) awaitHealthy(ctx context.Context, name string) {
	until, isUnhealthy := r.unhealthy[name]
	if !isUnhealthy {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, until-r.Clock())
	defer cancel()
	for ctx.Err() == nil {
		if _, err := r.Engines[name].Probe(ctx); err == nil {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
