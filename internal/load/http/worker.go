package http

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/socket"
	"github.com/tare-bench/tare/internal/load/turn"
)

// A worker is one thread of the client with its connections.
type worker struct {
	plan    *Plan
	to      socket.Address
	request []byte
	expect  *atomic.Int64 // bytes of a body, for all threads; -1 until the first answer
	origin  time.Time
	turn    *turn.Clock // which shows 0 at origin

	poll     *socket.Poll
	conns    []conn
	free     queue // idle connections
	busy     int   // number of connections with a request
	buffer   []byte
	schedule schedule
	tally    tally

	sent      int64         // requests, with those that do not count
	now       time.Duration // since origin, at the last reading of the clock
	checkedAt time.Duration // when look last checked the deadlines
	lastGood  time.Duration
	failing   bool          // a request has failed since lastGood
	busyWait  time.Duration // time of polling without an event
	gaveUp    bool
}

// bufferBytes is how much is read at once: what fits into the first-level cache of a CPU.
const bufferBytes = 32 << 10

func newWorker(p *Plan, t *Target, expect *atomic.Int64, origin time.Time, connections int) (*worker, error) {
	poll, err := socket.NewPoll()
	if err != nil {
		return nil, err
	}
	w := &worker{
		plan: p, to: socket.AddressOf(t.At), request: t.request(p.KeepAlive), expect: expect, origin: origin,
		poll: poll, conns: make([]conn, connections), free: newQueue(connections),
		buffer: make([]byte, bufferBytes), tally: newTally(),
	}
	for i := range w.conns {
		w.conns[i] = conn{key: i, fd: -1, response: newResponse()}
		w.free.push(i)
	}
	return w, nil
}

func (w *worker) clock() time.Duration { return w.turn.Now() }

// run sends requests until there are no more, and each was answered or has failed.
func (w *worker) run(p schedule) {
	w.schedule, w.lastGood = p, p.begin
	catchUp := w.handleEvents // made once
	for w.now = w.clock(); !w.over(); w.now = w.clock() {
		if w.busy == 0 {
			w.turn.Pause(w.now)
		}
		w.dispatch(catchUp)
		events := w.await()
		w.now = w.clock()
		for i := range events {
			w.handle(&w.conns[events[i].Fd], events[i].Events)
			w.dispatch(nil)
		}
		w.checkDeadlines()
	}
}

func (w *worker) over() bool { return w.gaveUp || w.busy == 0 && w.schedule.ended(w.now) }

// dispatch gives requests to idle connections. A request that has waited for a connection
// until its timeout has failed. After each connection that it begins to make, hand calls
// between, which may be nil.
func (w *worker) dispatch(between func()) {
	if w.turn.Over(w.now) {
		return // what is under way is answered, and then the thread rests
	}
	for range w.free.len() { // connections that become idle in between wait for the next call
		origin, ok := w.schedule.next(w.now)
		if !ok {
			return
		}
		if origin+w.plan.Timeout <= w.now {
			w.count(FailedTime, origin, errWaited)
			continue
		}
		c := &w.conns[w.free.pop()]
		if w.begin(c, origin); c.phase == connecting && between != nil {
			between()
		}
	}
}

// handleEvents handles pending events. If many connections are made, one that is established
// must not wait until all others have begun: its time would include theirs.
func (w *worker) handleEvents() {
	events := w.poll.Wait(0)
	w.now = w.clock()
	for i := range events {
		w.handle(&w.conns[events[i].Fd], events[i].Events)
	}
}

var (
	errWaited = errors.New("all connections were busy until the timeout")
	errMore   = errors.New("the server sent more than the answer")
)

// deadlineInterval is the interval at which look checks the deadlines of connections.
const deadlineInterval = 10 * time.Millisecond

// spinTime is about the cost of going to sleep and waking up.
const spinTime = 10 * time.Microsecond

// await waits for events, or until there is something to do.
func (w *worker) await() []unix.EpollEvent {
	if w.schedule.interval > 0 {
		w.now = w.clock() // sending took a while
	}
	began := w.now
	for w.shouldSpin(began) {
		if events := w.poll.Wait(0); len(events) > 0 {
			w.busyWait += w.now - began
			return events
		}
		w.now = w.clock()
	}
	w.busyWait += min(w.now-began, spinTime)
	return w.poll.Wait(w.sleepTime())
}

// shouldSpin reports whether to poll again rather than to sleep. In a closed loop, everything
// that the worker waits for comes from the server, which would pay for a part of the
// wake-up, so it polls for a moment. In an open loop, it polls if the next request is due
// soon.
func (w *worker) shouldSpin(began time.Duration) bool {
	if w.schedule.interval == 0 {
		return w.now < began+spinTime
	}
	nap := w.sleepTime()
	return 0 < nap && nap < spinTime
}

// sleepTime is how long the worker may sleep if there are no events.
func (w *worker) sleepTime() time.Duration {
	limit := w.checkedAt + deadlineInterval - w.now
	if w.schedule.interval > 0 && w.free.len() > 0 && !w.schedule.ended(w.now) {
		limit = min(limit, w.schedule.due()-w.now)
	}
	return limit
}

// checkDeadlines handles deadlines: connections that closed or rested become idle, and requests
// past their timeout fail.
func (w *worker) checkDeadlines() {
	if w.now-w.checkedAt < deadlineInterval {
		return
	}
	w.checkedAt = w.now
	for i := range w.conns {
		c := &w.conns[i]
		if c.phase == idle || c.deadline > w.now {
			continue
		}
		switch c.phase {
		case backoff:
			w.release(c)
		case closing:
			w.drop(c)
			w.release(c)
		default:
			w.fail(c, FailedTime, unix.ETIMEDOUT)
		}
	}
	w.gaveUp = w.gaveUp || w.busy > 0 && w.shouldGiveUp()
}

// shouldGiveUp reports whether there was no good answer for too long.
func (w *worker) shouldGiveUp() bool {
	return w.now-w.lastGood > max(maxTimeouts*w.plan.Timeout, minGiveUpTime)
}

// maxTimeouts is the number of timeouts without a good answer after which the client gives
// up, but not before minGiveUpTime.
const (
	maxTimeouts   = 3
	minGiveUpTime = 3 * time.Second
)

// end closes everything. Requests in flight count as failed.
func (w *worker) end() {
	for i := range w.conns {
		c := &w.conns[i]
		switch c.phase {
		case connecting, sending, receiving:
			w.count(FailedTime, c.origin, unix.ETIMEDOUT)
		}
		if c.fd >= 0 {
			socket.Reset(c.fd)
			c.fd = -1
		}
	}
	w.poll.Close()
}

// count counts a failure.
func (w *worker) count(k Kind, origin time.Duration, why error) {
	w.tally.fail(k, why, origin >= w.schedule.countFrom)
}

// record counts a complete answer, with its times.
func (w *worker) record(c *conn) {
	w.lastGood, w.failing = w.now, false
	w.turn.Did(1)
	if c.origin < w.schedule.countFrom {
		if w.schedule.overlaps(w.now) {
			w.tally.addOverlap(w.now, c.got)
		}
		return
	}
	began := c.sent
	if w.schedule.interval > 0 {
		began = c.origin
	}
	w.tally.answer(times{c.origin, began, c.first, w.now}, c.newForRequest, c.got, c.response.body,
		w.now <= w.schedule.until)
}

// checkAnswer returns why a complete answer is not a good one. expect is the length of the
// body; -1 = take that of the first answer.
func checkAnswer(status int, body int64, expect *atomic.Int64) (Kind, error) {
	if status < 200 || status > 299 {
		return FailedStatus, statusError(status)
	}
	want := expect.Load()
	if want < 0 && !expect.CompareAndSwap(want, body) {
		want = expect.Load() // another thread has just set it
	}
	if want >= 0 && body != want {
		return FailedLength, lengthError{body, want}
	}
	return 0, nil
}

// The errors below hold only numbers, because each request may cause one.
type (
	statusError int
	lengthError struct{ got, want int64 }
)

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

func (e lengthError) Error() string {
	return fmt.Sprintf("a body of %d bytes instead of %d", e.got, e.want)
}

// kindOf returns the kind of a system error on a connection.
func kindOf(errno syscall.Errno) Kind {
	if errno == unix.ETIMEDOUT {
		return FailedTime
	}
	return FailedRead
}
