package http

import (
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// A Kind is why a request failed.
type Kind int

// The kinds.
const (
	FailedConnect Kind = iota // no connection came about
	FailedRead                // it was cut off, or what came is no answer
	FailedLength              // the answer is not as long as it says, or as the others
	FailedStatus              // the answer is whole and says that it is none
	FailedTime                // the answer was not there in time
	kinds
)

func (k Kind) String() string {
	return [...]string{"connect", "read", "length", "status", "timeout"}[k]
}

// A tally is what one thread, or all together, found out about the requests that
// count. A request that failed has no time.
type tally struct {
	connect *load.Histogram // of each connection, also those made before anything counts
	first   *load.Histogram
	process *load.Histogram // of requests with a connection of their own
	total   *load.Histogram

	counts
	length int64 // of a body
	failed [kinds]int64
	why    [kinds]error // of the first
}

// counts are those of good answers.
type counts struct {
	good   int64
	timely int64 // that came before the end of the time; in a closed loop with a time also those that were asked for before its beginning
	bytes  int64 // of the timely ones, heads and bodies
	last   time.Duration
}

func (c *counts) add(o counts) {
	c.good += o.good
	c.timely += o.timely
	c.bytes += o.bytes
	c.last = max(c.last, o.last)
}

func newTally() tally {
	return tally{connect: load.NewHistogram(), first: load.NewHistogram(), process: load.NewHistogram(), total: load.NewHistogram()}
}

// add joins what another thread found out.
func (t *tally) add(o *tally) {
	t.connect.Merge(o.connect)
	t.first.Merge(o.first)
	t.process.Merge(o.process)
	t.total.Merge(o.total)
	t.counts.add(o.counts)
	t.length = max(t.length, o.length)
	for k := range kinds {
		t.failed[k] += o.failed[k]
		if t.why[k] == nil {
			t.why[k] = o.why[k]
		}
	}
}

// times are those of one answer: from when on it is timed, from when on the server
// has it, its first byte and its last.
type times struct{ origin, began, first, last time.Duration }

// answer counts a good answer: with a connection of its own or not, its bytes, those
// of its body, and whether it came before the end of the time.
func (t *tally) answer(at times, fresh bool, bytes, body int64, timely bool) {
	t.good++
	t.length, t.last = body, at.last
	if timely {
		t.timely++
		t.bytes += bytes
	}
	t.total.Add(at.last - at.origin)
	t.first.Add(at.first - at.began)
	if fresh {
		t.process.Add(at.last - at.began)
	}
}

// carried counts the bytes of a good answer to a request from before anything counts,
// which came in the time that does: the rate is that of answers.
func (t *tally) carried(at time.Duration, bytes int64) {
	t.timely++
	t.bytes += bytes
	t.last = at
}

// fail counts a failure, if it counts, and keeps the first reason.
func (t *tally) fail(k Kind, why error, counts bool) {
	if t.why[k] == nil {
		t.why[k] = why
	}
	if counts {
		t.failed[k]++
	}
}

// failures is how many requests failed.
func (t *tally) failures() (n int64) {
	for _, f := range t.failed {
		n += f
	}
	return n
}
