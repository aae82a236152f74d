// Package client is what the clients of servers have in common: threads with connections of their own,
// which begin requests by a schedule and wait for all of their connections at once (epoll). What a
// request is, and what a connection does, is the client's.
package client

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load/socket"
	"github.com/tare-bench/tare/internal/load/turn"
)

// A Thread is one thread of a client, with connections that have keys from 0. It is for one goroutine.
type Thread struct {
	Turn     *turn.Clock
	Poll     *socket.Poll // in which connections have their keys
	Schedule Schedule
	Free     Queue // connections without a request
	Busy     int   // number of connections with one

	Now      time.Duration // of Turn, at the last Read
	BusyWait time.Duration // time of polling without an event

	spins    bool          // see New
	interval time.Duration // at which deadlines are checked
	checked  time.Duration // when they were last
}

// New returns a thread with room for some connections. It looks at deadlines once in each interval. In a
// closed loop everything that it waits for comes from the server. If it spins, it polls for a moment
// before it sleeps, so that the server does not pay for a part of the wake-up; for servers that take
// longer than that moment, polling would only cost CPU time. Close Poll after use.
func New(connections int, interval time.Duration, spins bool) (Thread, error) {
	poll, err := socket.NewPoll()
	if err != nil {
		return Thread{}, err
	}
	return Thread{Poll: poll, Free: newQueue(connections), spins: spins, interval: interval}, nil
}

// Read reads the clock.
func (t *Thread) Read() { t.Now = t.Turn.Now() }

// spinTime is about the cost of going to sleep and waking up.
const spinTime = 10 * time.Microsecond

// Await waits for events, or until there is something to do. In an open loop, it polls if the next
// request is due soon.
func (t *Thread) Await() []unix.EpollEvent {
	switch {
	case t.Schedule.Open():
		t.Read() // sending took a while
	case !t.spins:
		return t.Poll.Wait(t.sleepTime())
	}
	began := t.Now
	for t.shouldSpin(began) {
		if events := t.Poll.Wait(0); len(events) > 0 {
			t.BusyWait += t.Now - began
			return events
		}
		t.Read()
	}
	t.BusyWait += min(t.Now-began, spinTime)
	return t.Poll.Wait(t.sleepTime())
}

// shouldSpin reports whether to poll again rather than to sleep.
func (t *Thread) shouldSpin(began time.Duration) bool {
	if !t.Schedule.Open() {
		return t.Now < began+spinTime
	}
	nap := t.sleepTime()
	return 0 < nap && nap < spinTime
}

// sleepTime is how long the thread may sleep if there are no events.
func (t *Thread) sleepTime() time.Duration {
	limit := t.checked + t.interval - t.Now
	if t.Schedule.Open() && t.Free.Len() > 0 && !t.Schedule.Ended(t.Now) {
		limit = min(limit, t.Schedule.Due()-t.Now)
	}
	return limit
}

// MustCheck reports, once in each interval, that deadlines are to be checked.
func (t *Thread) MustCheck() bool {
	if t.Now-t.checked < t.interval {
		return false
	}
	t.checked = t.Now
	return true
}

// A Queue holds keys, at most as many as there are connections: first in, first out.
type Queue struct {
	keys        []int
	head, count int
}

func newQueue(room int) Queue { return Queue{keys: make([]int, room)} }

// Len is the number of keys in it.
func (q *Queue) Len() int { return q.count }

// Push adds a key.
func (q *Queue) Push(key int) {
	q.keys[(q.head+q.count)%len(q.keys)] = key
	q.count++
}

// Pop removes the first key, which there must be.
func (q *Queue) Pop() int {
	key := q.keys[q.head]
	q.head = (q.head + 1) % len(q.keys)
	q.count--
	return key
}

// StartDelay is how long threads may take to start.
const StartDelay = 5 * time.Millisecond

// A Span is what Run tells of its threads.
type Span struct {
	Begin  time.Duration // when they began, since the origin
	CPU    time.Duration // CPU time of this process in the meantime
	Slices []float64     // how fast they were in each turn; nil without turns
}

// Run runs do on threads of their own, each on one of the CPUs if there are any, and returns when all
// have ended. They begin at the same time, and get clocks that show 0 at origin.
func Run(
	turns *turn.Page, cpus []int, origin time.Time, threads int,
	do func(thread int, clock *turn.Clock, begin time.Duration),
) Span {
	stage := turns.Stage(threads)
	s := Span{Begin: time.Since(origin) + StartDelay}
	before := affinity.CPUTime()
	var all sync.WaitGroup
	for i := range threads {
		clock := stage.Clock(origin)
		all.Go(func() {
			defer clock.End()
			runtime.LockOSThread() // never unlocked: the thread ends with its pinning and timer slack
			socket.Precise()
			if len(cpus) > 0 {
				affinity.Pin(cpus[i])
			}
			time.Sleep(s.Begin - clock.Now())
			do(i, clock, s.Begin)
		})
	}
	all.Wait()
	s.CPU, s.Slices = affinity.CPUTime()-before, stage.Slices()
	return s
}
