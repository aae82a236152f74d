package http

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load/client"
)

// A Client replaces this package's own client, for protocols that it does not support.
// Each lane has its own connection, and one request at a time.
type Client interface {
	// Ask sends a request and waits for its answer, until the context ends.
	Ask(ctx context.Context, lane int) Answer
	// CloseAll closes every connection.
	CloseAll()
}

// An Answer is the result of one request. Times that were not observed are zero.
type Answer struct {
	Opened, Connected time.Time // begin and end of connecting, if it needed a new connection
	Sent              time.Time // when it began to be sent
	First             time.Time // when the first byte of the answer came
	Status            int
	Length            int64 // bytes of the body
	Err               error // why there is no complete answer
	Kind              Kind  // of that error
}

// clientPool sends the requests of one plan with a Client, one goroutine for each connection.
type clientPool struct {
	plan   *Plan
	client Client
	cpus   int
	origin time.Time

	mu       sync.Mutex
	schedule client.Schedule
	tally    tally
	expect   atomic.Int64
	sent     int64
	lastGood time.Time
	gaveUp   bool
}

func newClientPool(p *Plan, t *Target, c Client) *clientPool {
	l := &clientPool{plan: p, client: c, cpus: max(1, len(t.cpus)), origin: time.Now(), tally: newTally()}
	l.expect.Store(t.expect)
	return l
}

// round implements pool.
func (l *clientPool) round(p *Plan) round {
	begin := time.Since(l.origin) + client.StartDelay
	l.schedule, l.lastGood = p.times().Schedule(0, 1, begin), time.Now()
	before := affinity.CPUTime()
	var all sync.WaitGroup
	for i := range p.Connections {
		all.Go(func() {
			for l.one(i) {
			}
		})
	}
	all.Wait()
	return round{
		countFrom: l.schedule.CountFrom, sendTime: time.Since(l.origin) - begin,
		cpu: (affinity.CPUTime() - before) / time.Duration(l.cpus),
		all: l.tally.counts, sent: l.sent, gaveUp: l.gaveUp,
	}
}

// close implements pool.
func (l *clientPool) close() tally {
	l.client.CloseAll()
	return l.tally
}

// one sends the next request; false if there are no more.
func (l *clientPool) one(lane int) bool {
	due, ok := l.next()
	if !ok {
		return false
	}
	time.Sleep(due - time.Since(l.origin))
	if l.plan.open() && due+l.plan.Timeout <= time.Since(l.origin) {
		l.failed(FailedTime, due, errWaited)
		return true
	}
	l.count()
	ctx, cancel := context.WithDeadline(context.Background(), l.origin.Add(due+l.plan.Timeout))
	defer cancel()
	a := l.client.Ask(ctx, lane)
	if a.Err != nil {
		l.failed(a.Kind, due, a.Err)
		time.Sleep(backoffTime)
		return true
	}
	l.answered(&a, due)
	return true
}

// next takes the next request, and returns when it is due.
func (l *clientPool) next() (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := max(time.Since(l.origin), l.schedule.Begin)
	l.gaveUp = l.gaveUp || time.Since(l.lastGood) > max(maxTimeouts*l.plan.Timeout, minGiveUpTime)
	if l.gaveUp || l.schedule.Ended(now) {
		return 0, false
	}
	if l.plan.open() {
		now = l.schedule.Due() // the lane waits until then
	}
	return l.schedule.Next(now)
}

// count counts a sent request.
func (l *clientPool) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
}

func (l *clientPool) failed(k Kind, due time.Duration, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.fail(k, why, due >= l.schedule.CountFrom)
}

// answered counts a complete answer.
func (l *clientPool) answered(a *Answer, due time.Duration) {
	now := time.Since(l.origin)
	l.mu.Lock()
	defer l.mu.Unlock()
	if k, err := checkAnswer(a.Status, a.Length, &l.expect); err != nil {
		l.tally.fail(k, err, due >= l.schedule.CountFrom)
		return
	}
	l.lastGood = time.Now()
	began := due
	if !l.plan.open() {
		began = a.Sent.Sub(l.origin)
	}
	fresh := !a.Opened.IsZero()
	if fresh {
		l.tally.connect.Add(a.Connected.Sub(a.Opened))
	}
	if due < l.schedule.CountFrom {
		if l.schedule.Overlaps(now) {
			l.tally.addOverlap(now, a.Length)
		}
		return
	}
	l.tally.answer(times{due, began, a.First.Sub(l.origin), now}, fresh, a.Length, a.Length, now <= l.schedule.Until)
}
