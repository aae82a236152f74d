package turn

import (
	"math"
	"sync/atomic"
	"time"
)

// A Stage is a part of a load in which a number of threads measure. What they do between two
// stages, such as making data, has a turn to its end.
type Stage struct {
	page    *Page
	threads int64
	most    time.Duration // that a slice takes; 0 = as much as is given
	// resting counts the threads that have ended their slice, and those that have ended the
	// stage. The last one ends the turn.
	resting atomic.Int64
	ended   atomic.Int64

	did    atomic.Uint64 // what the threads did in the present slice, added up: the bits of a float64
	worked atomic.Int64  // for how long the one that was at work for longest was
	slices []float64     // only the last thread to rest touches it, while the others wait or have ended
}

// maxSlices is the number of slices of a stage whose speed is kept.
const maxSlices = 1000

// Slices returns how fast the stage was in each of its slices: what its clocks were told that was done, per
// second; 0 if nothing was, or in less than half the length. Those after the first thousand are left out, and so are the
// last ones of 0. It is nil if the stage took no turns. Call it when all threads have ended.
func (s *Stage) Slices() []float64 {
	if s == nil {
		return nil
	}
	n := len(s.slices)
	for n > 0 && s.slices[n-1] == 0 {
		n--
	}
	return s.slices[:n]
}

// add adds what a thread did in a slice.
func (s *Stage) add(did float64, worked time.Duration) {
	for old := s.did.Load(); !s.did.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+did)); {
		old = s.did.Load()
	}
	for old := s.worked.Load(); old < int64(worked) && !s.worked.CompareAndSwap(old, int64(worked)); {
		old = s.worked.Load()
	}
}

// endSlice keeps the speed of a slice that all threads have ended.
func (s *Stage) endSlice() {
	did, worked := math.Float64frombits(s.did.Swap(0)), time.Duration(s.worked.Swap(0))
	s.page.words.worked.Add(int64(worked))
	if len(s.slices) == maxSlices {
		return
	}
	speed := 0.0
	if long := worked >= s.slice()/2; worked > 0 && (long || len(s.slices) == 0) {
		speed = did / worked.Seconds()
	}
	s.slices = append(s.slices, speed)
}

// Stage waits for the turn in which a stage begins.
func (p *Page) Stage(threads int) *Stage {
	if p != nil {
		p.reach()
	}
	return &Stage{page: p, threads: int64(threads)}
}

// AtMost shortens the slices of a stage. Where little is done in all, there are more of them then, and what disturbs
// the machine for a few slices hits all cells.
func (s *Stage) AtMost(slice time.Duration) *Stage {
	s.most = slice
	return s
}

// slice is how long a slice of the stage takes.
func (s *Stage) slice() time.Duration {
	given := time.Duration(s.page.words.slice.Load())
	if s.most > 0 {
		return min(given, s.most)
	}
	return given
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
	from   time.Duration // when it began
	did    float64       // in it
	worked time.Duration // in it, if Took was called
}

// Clock returns a clock that shows 0 at began, and whose first slice begins now. A nil Stage has the
// machine to itself.
func (s *Stage) Clock(began time.Time) *Clock {
	c := &Clock{stage: s, began: began}
	if s.takesTurns() {
		c.from = c.Now()
		c.until = c.from + s.slice()
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

// Did says that the thread has done so much, such as a number of operations, since it was last called. The
// unit does not matter: see Slices.
func (c *Clock) Did(n float64) { c.did += n }

// Took says how long the thread measured in the present slice, if not all the time.
func (c *Clock) Took(d time.Duration) { c.worked = d }

// endSlice adds up what the thread did in the slice that ends now.
func (c *Clock) endSlice(now time.Duration) {
	worked := c.worked
	if worked == 0 {
		worked = now - c.from
	}
	c.stage.add(c.did, worked)
	c.from, c.did, c.worked = now, 0, 0
}

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
	c.endSlice(now)
	if s.resting.Add(1) == s.threads {
		s.endSlice()
		s.resting.Store(s.ended.Load())
		s.page.end()
	}
	s.page.await(turn)
	s.page.words.sliced.Store(1)
	c.paused = time.Since(c.began) - now
	c.until = now + s.slice()
}

// End says that the thread has ended the stage. If others rest already, the turn ends.
func (c *Clock) End() {
	s := c.stage
	if !s.takesTurns() {
		return
	}
	c.endSlice(c.Now())
	s.ended.Add(1)
	if s.resting.Add(1) != s.threads {
		return
	}
	s.endSlice()
	if ended := s.ended.Load(); ended < s.threads {
		s.resting.Store(ended)
		s.page.end()
		return
	}
	s.page.words.sliced.Store(0) // what comes before the next stage may take longer than a slice
}
