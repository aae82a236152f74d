package run

import (
	"context"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// comeback is how long an engine is waited for after one of its trials, or a
// part of one, has failed: systemd starts containerd again after 5 s.
const comeback = 15 * time.Second

// doubt notes that a trial of an engine has failed, or a part of one, so that the engine
// itself may be away; a trial that succeeds ends the doubt that there was.
func (r *runner) doubt(s bench.Sample) {
	engine := r.plan.Cells[s.Trial.Cell].Engine
	if s.Outcome == bench.OK {
		delete(r.doubts, engine)
	}
	failed := s.Outcome == bench.Failed || s.Outcome == bench.TimedOut || s.PartFailed()
	if _, doubted := r.doubts[engine]; failed && !doubted {
		r.doubts[engine] = r.Clock() + comeback
	}
}

// awaitEngine waits until an engine in doubt answers, before the trial's time
// limit begins. A daemon that is started again costs the trial that it died in;
// without the wait, the next ones would fail at once, and its cells would be given
// up. One that stays away is waited for only once: what it fails with then, its
// trials say.
func (r *runner) awaitEngine(ctx context.Context, name string) {
	until, doubted := r.doubts[name]
	if !doubted {
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
