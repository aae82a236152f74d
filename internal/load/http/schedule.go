package http

import (
	"math"
	"time"
)

// A schedule says when one thread sends its requests.
type schedule struct {
	interval  float64       // nanoseconds from one request to the next; 0 = as soon as a connection is free
	begin     time.Duration // when the first request is due
	countFrom time.Duration // when requests begin to count
	until     time.Duration // no request begins then or later
	remaining int64         // requests that count and have not begun
	started   int64         // requests that have begun
}

// next returns the time from which the next request is timed; false if none is to be
// sent now.
func (p *schedule) next(now time.Duration) (time.Duration, bool) {
	if p.interval == 0 {
		if p.ended(now) {
			return 0, false
		}
		if now >= p.countFrom {
			p.remaining--
		}
		return now, true
	}
	due := p.due()
	if due > now || due >= p.until {
		return 0, false
	}
	p.started++
	return due, true
}

// due is when the next request is due.
func (p *schedule) due() time.Duration { return p.begin + time.Duration(float64(p.started)*p.interval) }

// overlaps reports whether the rate includes an answer that comes now to a request from
// the warm-up: in a closed loop with a time. Otherwise the rate would miss as many answers
// as there are connections.
func (p *schedule) overlaps(now time.Duration) bool {
	return p.interval == 0 && p.until < math.MaxInt64 && p.countFrom <= now && now <= p.until
}

// ended reports whether there are no more requests.
func (p *schedule) ended(now time.Duration) bool {
	if p.interval == 0 {
		return p.remaining <= 0 || now >= p.until
	}
	return p.due() >= p.until
}

// scheduleOf returns the schedule of one of several threads, whose requests alternate. begin is
// when the first request of all threads is sent.
func (p *Plan) scheduleOf(thread, threads int, begin time.Duration) schedule {
	out := schedule{begin: begin, countFrom: begin + p.Warmup, until: begin + p.Warmup + p.Time, remaining: math.MaxInt64}
	switch {
	case p.open():
		out.interval = float64(threads) * float64(time.Second) / float64(p.Rate)
		out.begin += time.Duration(float64(thread) * float64(time.Second) / float64(p.Rate))
	case p.Requests > 0:
		out.until = math.MaxInt64
		out.remaining = threadShare(p.Requests, thread, threads)
	}
	return out
}

// threadShare is one thread's part of a number.
func threadShare(all int64, thread, threads int) int64 {
	part := all / int64(threads)
	if int64(thread) < all%int64(threads) {
		part++
	}
	return part
}
