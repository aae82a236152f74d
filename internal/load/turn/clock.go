package turn

import (
	"sync/atomic"
	"time"
)

// A Stage is a part of a load in which a number of threads measure. What they do between two
// stages, such as making data, has a turn to its end.
type Stage struct {
	page    *Page
	threads int64
	// resting counts the threads that have ended their slice, and those that have ended the
	// stage. The last one ends the turn.
	resting atomic.Int64
	ended   atomic.Int64
}

// Stage waits for the turn in which a stage begins.
func (p *Page) Stage(threads int) *Stage {
	if p != nil {
		p.reach()
	}
	return &Stage{page: p, threads: int64(threads)}
}

// Whole is Stage for a stage that needs one turn to its end, however long.
func (p *Page) Whole() {
	if p != nil {
		p.reach()
		p.words.sliced.Store(0)
	}
}

// A Clock is the clock of one thread of a stage. It stands still while others have the turn.
type Clock struct {
	stage  *Stage
	began  time.Time
	paused time.Duration // since began
	until  time.Duration // when the slice is over; on this clock
}

// Clock returns a clock that shows 0 at began, and whose first slice begins now. A nil Stage has the
// machine to itself.
func (s *Stage) Clock(began time.Time) *Clock {
	c := &Clock{stage: s, began: began}
	if s.takesTurns() {
		c.until = c.Now() + time.Duration(s.page.words.slice.Load())
	}
	return c
}

func (s *Stage) takesTurns() bool { return s != nil && s.page != nil }

// Now returns the time of this clock. Between two operations, call Over or Pause with it.
func (c *Clock) Now() time.Duration { return time.Since(c.began) - c.paused }

// Began returns when the clock showed 0.
func (c *Clock) Began() time.Time { return c.began }

// Over reports whether the slice is over. A thread with operations under way ends them, and
// then calls Rest.
func (c *Clock) Over(now time.Duration) bool { return c.stage.takesTurns() && now >= c.until }

// Left returns how long the slice still is.
func (c *Clock) Left() time.Duration { return max(c.until-c.Now(), 0) }

// Pause rests if the slice is over. The clock continues at now: what the thread did since it
// read that time is lost.
func (c *Clock) Pause(now time.Duration) {
	if c.Over(now) {
		c.Rest(now)
	}
}

// Rest ends the thread's slice. The clock continues at now when the next turn begins.
func (c *Clock) Rest(now time.Duration) {
	s := c.stage
	turn := s.page.words.turn.Load()
	if s.resting.Add(1) == s.threads {
		s.resting.Store(s.ended.Load())
		s.page.end()
	}
	s.page.await(turn)
	s.page.words.sliced.Store(1)
	c.paused = time.Since(c.began) - now
	c.until = now + time.Duration(s.page.words.slice.Load())
}

// End says that the thread has ended the stage. If others rest already, the turn ends.
func (c *Clock) End() {
	s := c.stage
	if !s.takesTurns() {
		return
	}
	s.ended.Add(1)
	if s.resting.Add(1) != s.threads {
		return
	}
	if ended := s.ended.Load(); ended < s.threads {
		s.resting.Store(ended)
		s.page.end()
		return
	}
	s.page.words.sliced.Store(0) // what comes before the next stage may take longer than a slice
}
