package http

import (
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// A Kind is the kind of failure of a request.
type Kind int

// The kinds.
const (
	FailedConnect Kind = iota // no connection could be made
	FailedRead                // the connection broke, or the answer is invalid
	FailedLength              // the answer's length is not the announced one, or not that of the others
	FailedStatus              // the answer is complete, but its status is not 2xx
	FailedTime                // the answer was not complete in time
	kinds
)

func (k Kind) String() string {
	return [...]string{"connect", "read", "length", "status", "timeout"}[k]
}

// A tally has the results of one thread, or of all, for the requests that count. A failed
// request has no time.
type tally struct {
	connect *load.Histogram // of each connection, also of the warm-up
	first   *load.Histogram
	process *load.Histogram // of requests on a new connection
	total   *load.Histogram

	counts
	length int64 // of a body
	failed [kinds]int64
	why    [kinds]error // the first failure of each kind
}

// counts are counts of good answers.
type counts struct {
	good   int64
	timely int64 // before the end of the time; in a closed loop with a time, also to requests from the warm-up
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
	return tally{
		connect: load.NewHistogram(), first: load.NewHistogram(), process: load.NewHistogram(), total: load.NewHistogram(),
	}
}

// add adds the results of another thread.
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

// times are those of one answer: from when the request is timed, from when the server
// has it, and the first and the last byte of the answer.
type times struct{ due, began, first, last time.Duration }

// answer counts a good answer. fresh says that it used a new connection, and timely that
// it came before the end of the time.
func (t *tally) answer(at times, fresh bool, bytes, body int64, timely bool) {
	t.good++
	t.length, t.last = body, at.last
	if timely {
		t.timely++
		t.bytes += bytes
	}
	t.total.Add(at.last - at.due)
	t.first.Add(at.first - at.began)
	if fresh {
		t.process.Add(at.last - at.began)
	}
}

// addOverlap counts a good answer within the measured time to a request from the warm-up:
// the rate counts answers, not requests.
func (t *tally) addOverlap(at time.Duration, bytes int64) {
	t.timely++
	t.bytes += bytes
	t.last = at
}

// fail counts a failure, unless it was in the warm-up, and keeps the first reason.
func (t *tally) fail(k Kind, why error, counts bool) {
	if t.why[k] == nil {
		t.why[k] = why
	}
	if counts {
		t.failed[k]++
	}
}

// failures is the number of failed requests.
func (t *tally) failures() (n int64) {
	for _, f := range t.failed {
		n += f
	}
	return n
}
