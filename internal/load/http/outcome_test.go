package http

import (
	"errors"
	"maps"
	nethttp "net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load/loadtest"
)

// The rate of several rounds is their median, whatever one of them came to; what is
// counted is added up.
func TestRounds(t *testing.T) {
	for _, test := range []struct {
		took     []time.Duration // of rounds of 100 requests with 5 bytes each
		rounds   int             // that there are
		rate     float64
		transfer float64
		elapsed  time.Duration
	}{
		{[]time.Duration{time.Second}, 1, 100, 500, time.Second},
		{[]time.Duration{time.Second, 4 * time.Second}, 2, 62.5, 312.5, 5 * time.Second},
		{[]time.Duration{time.Second, 10 * time.Second, 2 * time.Second}, 3, 50, 250, 13 * time.Second},
		{[]time.Duration{20 * time.Second, time.Second, time.Second}, 1, 5, 25, 20 * time.Second}, // no more time
	} {
		o := &outcome{plan: Plan{Requests: 100, Repeat: len(test.took), Time: 20 * time.Second}}
		o.observe(&fakePool{took: test.took})
		r, err := o.report()
		if err != nil {
			t.Fatal(err)
		}
		v := r.Values
		if v["http.rate"] != test.rate || v["http.transfer"] != test.transfer || v["http.elapsed"] != test.elapsed.Seconds() {
			t.Errorf("%v: %v", test.took, v)
		}
		if o.sent != int64(110*test.rounds) || o.sendTime != test.elapsed || v["http.client_cpu"] != 0.5 {
			t.Errorf("%v: %d sent in %v, client %v", test.took, o.sent, o.sendTime, v["http.client_cpu"])
		}
	}
}

// fakePool is a pool whose rounds take what they are told to.
type fakePool struct {
	took []time.Duration
	done counts
	sent int64
	now  time.Duration
}

func (p *fakePool) round(plan *Plan) round {
	from := p.now
	p.now += p.took[0]
	p.done.add(counts{good: 100, timely: 100, bytes: 500, last: p.now})
	p.sent += 110
	r := round{countFrom: from, sendTime: p.took[0], cpu: p.took[0] / 2, all: p.done, sent: p.sent}
	p.took = p.took[1:]
	p.now += time.Hour // until the next
	return r
}

func (p *fakePool) close() tally {
	t := newTally()
	t.counts = p.done
	return t
}

// The stretch that nothing interrupts is a quarter: of the rounds, as long as each may stay whole.
func TestUninterrupted(t *testing.T) {
	t.Parallel()
	for given, want := range map[Plan]Plan{
		{Time: time.Second}:                               {Time: time.Second / 4, Repeat: 1},
		{Time: time.Second, Requests: 2000, Repeat: 1}:    {Time: time.Second / 4, Requests: 500, Repeat: 1},
		{Time: time.Second, Requests: 1000, Repeat: 20}:   {Time: time.Second / 4, Requests: 1000, Repeat: 5},
		{Time: time.Second, Requests: 100_000, Repeat: 3}: {Time: time.Second / 4, Requests: 25_000, Repeat: 1},
	} {
		if got := given.uninterrupted(); got != want {
			t.Errorf("%+v: %+v, want %+v", given, got, want)
		}
	}
}

// A stretch into which no answer fits tells nothing, but what it has sent. It does not fail the trial, whose turns have
// answers.
func TestTooShortStretch(t *testing.T) {
	t.Parallel()
	slow := httptest.NewServer(nethttp.HandlerFunc(func(nethttp.ResponseWriter, *nethttp.Request) {
		time.Sleep(80 * time.Millisecond)
	}))
	t.Cleanup(slow.Close)
	args := loadtest.Args("addr="+slow.Listener.Addr().String(), "connections=1", "time=200ms", "warmup=10ms")
	p, err := Read(args)
	target, targetErr := targetOf(args)
	if err := errors.Join(err, targetErr); err != nil {
		t.Fatal(err)
	}
	l := &loader{&target, nil}
	turns, err := l.observe(&p)
	if err != nil {
		t.Fatal(err)
	}
	r, err := turns.report()
	if err != nil {
		t.Fatal(err)
	}
	values, measured := maps.Clone(r.Values), r.Measured
	if err := l.stretch(r, turns, p); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(r.Values, values) || r.Measured != measured {
		t.Errorf("a stretch without an answer gave %v in %v s, after %v in %v s", r.Values, r.Measured, values, measured)
	}
	if sent := strconv.FormatInt(turns.sent+1, 10); r.Facts["sent"] != sent {
		t.Errorf("%s requests were sent, want %s", r.Facts["sent"], sent)
	}
}
