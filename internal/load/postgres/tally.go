package postgres

import (
	"github.com/tare-bench/tare/internal/load"
)

// A tally has the results of one thread, or of all. Its times are those of transactions that began after
// the warm-up and have ended well, and of the statements of all that began after it; connections are all
// timed.
type tally struct {
	time       *load.Histogram
	connect    *load.Histogram
	statements []*load.Histogram // by their place in the script

	begun     int64 // all, with the warm-up
	committed int64 // all that have ended well
	delta     int64 // sum of the deltas of these
	good      int64 // of those that began after the warm-up
	timely    int64 // that have ended well within the time
	refused   int64 // all that the server has refused, with the warm-up
	failed    [kinds]int64
	why       [kinds]error // the first failure of each kind
	seconds   []second     // of the measured time
}

// A kind is the kind of failure of a transaction.
type kind int

const (
	serialization kind = iota
	deadlock
	other
	kinds
)

func (k kind) String() string { return [...]string{"serialization", "deadlock", "other"}[k] }

func newTally(p *plan) tally {
	t := tally{time: load.NewHistogram(), connect: load.NewHistogram(), seconds: make([]second, p.seconds())}
	for range p.script.statements {
		t.statements = append(t.statements, load.NewHistogram())
	}
	return t
}

// refuse counts a transaction that the server has refused. One of the warm-up has not failed.
func (t *tally) refuse(e *ServerError, counts bool) {
	k := other
	switch e.Code {
	case CodeSerialization:
		k = serialization
	case CodeDeadlock:
		k = deadlock
	}
	if t.why[k] == nil {
		t.why[k] = e
	}
	t.refused++
	if counts {
		t.failed[k]++
	}
}

// failures is the number of failed transactions.
func (t *tally) failures() (n int64) {
	for _, f := range t.failed {
		n += f
	}
	return n
}

// add adds the results of another thread.
func (t *tally) add(o *tally) {
	t.time.Merge(o.time)
	t.connect.Merge(o.connect)
	for i, h := range t.statements {
		h.Merge(o.statements[i])
	}
	t.begun += o.begun
	t.committed += o.committed
	t.delta += o.delta
	t.refused += o.refused
	t.good += o.good
	t.timely += o.timely
	for i := range o.seconds {
		t.seconds[i].add(&o.seconds[i])
	}
	for k := range kinds {
		t.failed[k] += o.failed[k]
		if t.why[k] == nil {
			t.why[k] = o.why[k]
		}
	}
}
