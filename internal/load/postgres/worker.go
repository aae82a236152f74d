package postgres

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/socket"
	"github.com/tare-bench/tare/internal/load/turn"
)

// A worker is one thread of the client with its sessions.
type worker struct {
	plan     *plan
	target   *target
	to       socket.Address
	startup  []byte
	prepare  []byte
	patience time.Duration // how long the server may be silent
	origin   time.Time
	turn     *turn.Clock // which shows 0 at origin

	poll     *socket.Poll
	sessions []session
	free     queue // sessions without a transaction
	busy     int   // number of sessions with one
	schedule schedule
	tally    tally

	now       time.Duration // since origin, at the last reading of the clock
	checkedAt time.Duration // when checkSilence last looked
	busyWait  time.Duration // time of polling without an event
	err       error         // why this worker has stopped
	stop      *atomic.Bool  // a worker has failed: all stop
}

func (w *worker) clock() time.Duration { return w.turn.Now() }

// fail stops all workers. The first error stays.
func (w *worker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
	w.stop.Store(true)
}

func (w *worker) failed() bool { return w.err != nil }

// open makes the connections, one after the other, so that none waits for another.
func (w *worker) open() {
	for i := range w.sessions {
		s := &w.sessions[i]
		if w.plan.each {
			w.free.push(i)
			continue
		}
		w.now = w.clock()
		for w.connect(s); s.phase != idle && !w.failed(); w.checkSilence() {
			w.handleEvents(w.poll.Wait(checkInterval))
		}
	}
}

// run executes transactions until there are no more, and each has ended.
func (w *worker) run(p schedule) {
	w.schedule = p
	for w.now = w.clock(); !w.over(); w.now = w.clock() {
		if w.busy == 0 {
			w.turn.Pause(w.now)
		}
		w.dispatch()
		w.handleEvents(w.await())
		w.checkSilence()
	}
}

func (w *worker) over() bool { return w.stop.Load() || w.busy == 0 && w.schedule.ended(w.now) }

// handleEvents handles events, and gives transactions to the sessions that they have made free.
func (w *worker) handleEvents(events []unix.EpollEvent) {
	w.now = w.clock()
	for i := range events {
		w.handle(&w.sessions[events[i].Fd], events[i].Events)
		w.dispatch()
	}
}

// dispatch gives transactions to free sessions.
func (w *worker) dispatch() {
	if w.turn.Over(w.now) {
		return // what is under way ends, and then the thread rests
	}
	for range w.free.len() {
		origin, ok := w.schedule.next(w.now)
		if !ok {
			return
		}
		w.begin(&w.sessions[w.free.pop()], origin)
	}
}

// spinTime is about the cost of going to sleep and waking up.
const spinTime = 10 * time.Microsecond

// await waits for events, or until there is something to do. In a closed loop it sleeps at once, unlike the
// load http: a transaction takes a server longer than spinTime, which polling would only add to the
// client's CPU time. In an open one it polls if the next transaction is due soon.
func (w *worker) await() []unix.EpollEvent {
	if w.schedule.interval == 0 {
		return w.poll.Wait(w.sleepTime())
	}
	w.now = w.clock() // sending took a while
	began := w.now
	for w.shouldSpin() {
		if events := w.poll.Wait(0); len(events) > 0 {
			w.busyWait += w.now - began
			return events
		}
		w.now = w.clock()
	}
	w.busyWait += min(w.now-began, spinTime)
	return w.poll.Wait(w.sleepTime())
}

// shouldSpin reports whether to poll again rather than to sleep, in an open loop.
func (w *worker) shouldSpin() bool {
	nap := w.sleepTime()
	return 0 < nap && nap < spinTime
}

// sleepTime is how long the worker may sleep if there are no events.
func (w *worker) sleepTime() time.Duration {
	limit := w.checkedAt + checkInterval - w.now
	if w.schedule.interval > 0 && w.free.len() > 0 && !w.schedule.ended(w.now) {
		limit = min(limit, w.schedule.due()-w.now)
	}
	return limit
}

// checkInterval is the interval at which sessions are checked for silence.
const checkInterval = 50 * time.Millisecond

// checkSilence fails if a server does not answer.
func (w *worker) checkSilence() {
	if w.now-w.checkedAt < checkInterval {
		return
	}
	w.checkedAt = w.now
	for i := range w.sessions {
		s := &w.sessions[i]
		if s.phase == closed || s.phase == idle || w.now-s.sent < w.patience {
			continue
		}
		w.fail(fmt.Errorf("the server at %s has not answered within %v: look into its log",
			w.target.where(), w.patience))
	}
}

// close closes everything. Sessions that are open say goodbye.
func (w *worker) close() {
	for i := range w.sessions {
		s := &w.sessions[i]
		if s.phase == idle {
			_, _ = s.stream.Write(goodbye) // the server notices the end anyway
		}
		if s.phase != closed {
			socket.Close(s.socket.fd)
			s.phase = closed
		}
	}
	w.poll.Close()
}

// A queue holds a fixed number of keys, first in, first out.
type queue struct {
	keys        []int
	head, count int
}

func newQueue(room int) queue { return queue{keys: make([]int, room)} }

func (q *queue) len() int { return q.count }

func (q *queue) push(key int) {
	q.keys[(q.head+q.count)%len(q.keys)] = key
	q.count++
}

func (q *queue) pop() int {
	key := q.keys[q.head]
	q.head = (q.head + 1) % len(q.keys)
	q.count--
	return key
}
