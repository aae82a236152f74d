package disk

import (
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// A tally counts the requests that complete between two times.
type tally struct {
	stage    *turn.Stage // nil = it takes no turns
	clock    *turn.Clock
	from, to time.Duration // on the clock
	latency  *load.Histogram
}

// newTally returns a tally whose time begins with start.
func newTally(p Plan) *tally {
	return &tally{from: p.Ramp(), to: p.Ramp() + p.Time, latency: load.NewHistogram()}
}

func (t *tally) start() { t.clock = t.stage.Clock(time.Now()) }

// now is the time since start.
func (t *tally) now() time.Duration { return t.clock.Now() }

// isOver reports whether no further request may begin.
func (t *tally) isOver(now time.Duration) bool { return now >= t.to }

// add counts a request that was completed now.
func (t *tally) add(now, took time.Duration) {
	if now >= t.from && now < t.to {
		t.latency.Add(took)
	}
}

// of returns a tally with the same times, for another thread.
func (t *tally) of() *tally {
	return &tally{
		stage: t.stage, clock: t.stage.Clock(t.clock.Began()), from: t.from, to: t.to, latency: load.NewHistogram(),
	}
}

// rate is the number of requests per second.
func (t *tally) rate() float64 { return float64(t.latency.Count()) / (t.to - t.from).Seconds() }
