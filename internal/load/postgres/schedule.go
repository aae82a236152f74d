package postgres

import "time"

// A schedule says when one thread begins its transactions.
type schedule struct {
	interval  float64       // nanoseconds from one to the next; 0 = as soon as a session is free
	begin     time.Duration // when the first is due
	countFrom time.Duration // from when transactions that begin count
	until     time.Duration // none begins then or later
	started   int64
}

// schedule returns the schedule of one of several threads, whose transactions alternate. begin is when
// the first of all threads begins.
func (p *plan) schedule(thread, threads int, begin time.Duration) schedule {
	s := schedule{begin: begin, countFrom: begin + p.warmup, until: begin + p.warmup + p.time}
	if p.rate > 0 {
		s.interval = float64(threads) * float64(time.Second) / float64(p.rate)
		s.begin += time.Duration(float64(thread) * float64(time.Second) / float64(p.rate))
	}
	return s
}

// next returns the time from which the next transaction is timed; false if none is to begin now.
func (s *schedule) next(now time.Duration) (time.Duration, bool) {
	if s.interval == 0 {
		return now, now < s.until
	}
	due := s.due()
	if due > now || due >= s.until {
		return 0, false
	}
	s.started++
	return due, true
}

// due is when the next transaction is due in an open loop.
func (s *schedule) due() time.Duration { return s.begin + time.Duration(float64(s.started)*s.interval) }

// ended reports whether there are no more transactions.
func (s *schedule) ended(now time.Duration) bool {
	if s.interval == 0 {
		return now >= s.until
	}
	return s.due() >= s.until
}

// overlaps reports whether the rate includes a transaction from the warm-up that ends now: in a closed
// loop. Otherwise the rate would miss as many as there are clients.
func (s *schedule) overlaps(now time.Duration) bool {
	return s.interval == 0 && s.countFrom <= now && now <= s.until
}
