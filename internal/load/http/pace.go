package http

import (
	"math"
	"time"
)

// A pace says when one thread sends its requests.
type pace struct {
	each  float64       // nanoseconds from one request to the next; 0 = as soon as a connection is free
	begin time.Duration // when the first is due
	from  time.Duration // of those that count
	until time.Duration // none begins then or later
	left  int64         // that count and have not begun
	given int64         // that have begun
}

// next returns from when on the next request is timed; false if none is to be
// sent now.
func (p *pace) next(now time.Duration) (time.Duration, bool) {
	if p.each == 0 {
		if p.ended(now) {
			return 0, false
		}
		if now >= p.from {
			p.left--
		}
		return now, true
	}
	due := p.due()
	if due > now || due >= p.until {
		return 0, false
	}
	p.given++
	return due, true
}

// due is when the next request is.
func (p *pace) due() time.Duration { return p.begin + time.Duration(float64(p.given)*p.each) }

// carries tells whether an answer that comes now, to a request from before anything
// counts, is one of the rate: in a closed loop with a time. Without it a server's rate would
// be too low by as many answers as there are connections.
func (p *pace) carries(now time.Duration) bool {
	return p.each == 0 && p.until < math.MaxInt64 && p.from <= now && now <= p.until
}

// ended tells whether no more requests will come.
func (p *pace) ended(now time.Duration) bool {
	if p.each == 0 {
		return p.left <= 0 || now >= p.until
	}
	return p.due() >= p.until
}

// paceOf is the pace of one of some threads, whose requests fall between those of
// the others. Begin is when the first request of all is sent.
func (p *Plan) paceOf(thread, threads int, begin time.Duration) pace {
	out := pace{begin: begin, from: begin + p.Warmup, until: begin + p.Warmup + p.Time, left: math.MaxInt64}
	switch {
	case p.open():
		out.each = float64(threads) * float64(time.Second) / float64(p.Rate)
		out.begin += time.Duration(float64(thread) * float64(time.Second) / float64(p.Rate))
	case p.Requests > 0:
		out.until = math.MaxInt64
		out.left = share(p.Requests, thread, threads)
	}
	return out
}

// share is the part of one thread in what all do together.
func share(all int64, thread, threads int) int64 {
	part := all / int64(threads)
	if int64(thread) < all%int64(threads) {
		part++
	}
	return part
}
