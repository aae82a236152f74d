package network

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/turn"
)

// A gate holds threads while it is shut. The zero value is open.
type gate struct {
	closed atomic.Bool
	mu     sync.Mutex
	opened *sync.Cond // made when it is first shut
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = sync.NewCond(&g.mu)
	}
	g.closed.Store(true)
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed.Store(false)
	if g.opened != nil {
		g.opened.Broadcast()
	}
}

// pass returns when the gate is open.
func (g *gate) pass() {
	if !g.closed.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.closed.Load() {
		g.opened.Wait()
	}
}

const (
	// leadShare is the part of a turn that does not count: until the streams are full again.
	leadShare = 10 // a tenth
	// leastSlice is how long data flow in a turn at least. A stream in short turns is not what it is in one go: those over a
	// bridge gain most from going on, so turns of 25 ms hide most of their difference from the loopback interface.
	leastSlice = 100 * time.Millisecond
)

// inTurns measures a session in turns: in each, both sides send for a slice, of which the beginning does
// not count. The turns of the warm-up do not count at all. Then it measures one uninterrupted
// stretch.
func (s *session) inTurns(page *turn.Page) (o outcome, stretch float64, err error) {
	// The server waits a few seconds for that, and the other cells start before the first turn. Nothing flows yet.
	if err := s.begin(); err != nil {
		return o, 0, err
	}
	stage := page.Stage(1)
	clock := stage.Clock(time.Now())
	for warm := s.plan.Warmup; o.server.Elapsed < s.plan.Time; {
		length := max(clock.Left(), leastSlice)
		here, there, err := s.slice(length)
		if err != nil {
			return o, 0, err
		}
		clock.Did(float64(here.Bytes + there.Bytes))
		clock.Took(max(here.Elapsed, there.Elapsed))
		if warm > 0 {
			warm -= length
		} else {
			o.client, o.server = o.client.plus(here), o.server.plus(there)
		}
		if o.server.Elapsed < s.plan.Time {
			clock.Rest(clock.Now())
		}
	}
	clock.End()
	o.slices = stage.Slices()
	page.Whole()
	here, there, err := s.slice(s.plan.Time / load.StretchShare)
	return o, here.rate() + there.rate(), err
}

// slice lets data flow for a time, and returns the counts of both sides after the beginning of it. When it
// returns, nothing flows any more.
func (s *session) slice(d time.Duration) (here, there window, err error) {
	lead := max(d/leadShare, time.Millisecond)
	if err := s.ask(opSend); err != nil {
		return here, there, err
	}
	s.resting.open()
	time.Sleep(lead)
	here, there, err = s.bothCounts()
	if err != nil {
		return here, there, err
	}
	time.Sleep(max(d-lead, time.Millisecond))
	hereNow, thereNow, err := s.bothCounts()
	if err != nil {
		return here, there, err
	}
	s.resting.shut()
	if err := s.ask(opRest); err != nil {
		return here, there, err
	}
	return hereNow.since(here), thereNow.since(there), s.drain()
}

// drain waits until both sides have received what was sent.
func (s *session) drain() error {
	const pause, limit, enough = 200 * time.Microsecond, 10 * time.Second, 3
	before, alike := int64(-1), 0
	for began := time.Now(); time.Since(began) < limit; time.Sleep(pause) {
		here, there, err := s.bothCounts()
		if err != nil {
			return err
		}
		now := here.Bytes + there.Bytes
		if alike++; now != before {
			before, alike = now, 0
		}
		if alike == enough {
			return nil
		}
	}
	return fmt.Errorf("%v: data still arrive %v after the last was sent", s.client.tcp, limit)
}

// bothCounts returns the counts of both sides.
func (s *session) bothCounts() (here, there window, err error) {
	if err := s.ask(opCount); err != nil {
		return here, there, err
	}
	a, err := s.client.answer(replyLimit)
	if err != nil {
		return here, there, err
	}
	if a.Window == nil {
		return here, there, fmt.Errorf("%v: %w: it did not count", s.client.tcp, ErrForeign)
	}
	return s.counts(), *a.Window, nil
}

func (s *session) ask(op string) error {
	if err := s.client.jsonConn.write(request{Op: op}); err != nil {
		return fmt.Errorf("%v: %w: %w", s.client.tcp, ErrGone, err)
	}
	return nil
}

func (w window) plus(o window) window {
	return window{Bytes: w.Bytes + o.Bytes, Elapsed: w.Elapsed + o.Elapsed, CPU: w.CPU + o.CPU}
}

func (w window) since(o window) window {
	return window{Bytes: w.Bytes - o.Bytes, Elapsed: w.Elapsed - o.Elapsed, CPU: w.CPU - o.CPU}
}
