package client

import (
	"math"
	"time"
)

// Times say when the requests of all threads together begin.
type Times struct {
	Warmup   time.Duration // requests that begin in it do not count
	Time     time.Duration // after the warm-up
	Rate     int64         // requests per second, each when it is due; 0 = as soon as a connection is free
	Requests int64         // that count, in place of Time and without a rate; 0 = as many as fit into Time
}

// A Schedule says when one thread begins its requests.
type Schedule struct {
	Begin     time.Duration // when the first request is due
	CountFrom time.Duration // when requests begin to count
	Until     time.Duration // no request begins then or later

	interval  float64 // nanoseconds from one request to the next; 0 = as soon as a connection is free
	remaining int64   // requests that count and have not begun
	started   int64   // requests that have begun in an open loop
}

// Schedule returns the schedule of one of several threads, whose requests alternate. begin is when the
// first request of all threads begins.
func (t Times) Schedule(thread, threads int, begin time.Duration) Schedule {
	s := Schedule{
		Begin: begin, CountFrom: begin + t.Warmup, Until: begin + t.Warmup + t.Time, remaining: math.MaxInt64,
	}
	switch {
	case t.Rate > 0:
		s.interval = float64(threads) * float64(time.Second) / float64(t.Rate)
		s.Begin += time.Duration(float64(thread) * float64(time.Second) / float64(t.Rate))
	case t.Requests > 0:
		s.Until = math.MaxInt64
		s.remaining = Share(t.Requests, thread, threads)
	}
	return s
}

// Share is one thread's part of a number.
func Share(all int64, thread, threads int) int64 {
	part := all / int64(threads)
	if int64(thread) < all%int64(threads) {
		part++
	}
	return part
}

// Open reports whether the loop is open: requests begin when they are due.
func (s *Schedule) Open() bool { return s.interval > 0 }

// Next returns the time from which the next request is timed; false if none is to begin now.
func (s *Schedule) Next(now time.Duration) (time.Duration, bool) {
	if !s.Open() {
		if s.Ended(now) {
			return 0, false
		}
		if now >= s.CountFrom {
			s.remaining--
		}
		return now, true
	}
	due := s.Due()
	if due > now || due >= s.Until {
		return 0, false
	}
	s.started++
	return due, true
}

// Due is when the next request of an open loop is due.
func (s *Schedule) Due() time.Duration { return s.Begin + time.Duration(float64(s.started)*s.interval) }

// Ended reports whether there are no more requests.
func (s *Schedule) Ended(now time.Duration) bool {
	if !s.Open() {
		return s.remaining <= 0 || now >= s.Until
	}
	return s.Due() >= s.Until
}

// Overlaps reports whether the rate includes an answer that comes now to a request from the warm-up: in
// a closed loop with a time. Otherwise the rate would miss as many answers as there are connections.
func (s *Schedule) Overlaps(now time.Duration) bool {
	return !s.Open() && s.Until < math.MaxInt64 && s.CountFrom <= now && now <= s.Until
}

// MaxMissed is the share of the requests due that may be missing before a load says that it has missed
// its rate.
const MaxMissed = 0.01

// MissedShare is the share of the requests due in an open loop that did not have a good answer before
// the end of the time; timely is the number of those that had. Requests of the last moments do not
// count: grace, in seconds, is what an answer takes at least.
func MissedShare(t Times, grace float64, timely int64) float64 {
	seconds := t.Time.Seconds()
	due := math.Floor(float64(t.Rate) * (seconds - min(grace, seconds/2))) // where a thread begins decides on one more
	return max(0, 1-float64(timely)/max(due, 1))
}
