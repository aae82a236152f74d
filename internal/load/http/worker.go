package http

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A worker is one thread of the client with its connections.
type worker struct {
	plan    *Plan
	to      address
	request []byte
	expect  *atomic.Int64 // bytes of a body, for all threads; -1 until the first answer
	origin  time.Time

	poll   *poll
	conns  []conn
	free   queue // connections that nothing is under way on
	busy   int   // connections that a request is under way on
	buffer []byte
	pace   pace
	tally  tally

	sent     int64         // requests, also those that do not count
	now      time.Duration // since origin, when it was last looked at
	looked   time.Duration // when the connections were last looked through
	lastGood time.Duration
	failing  bool          // a connection has failed since
	vain     time.Duration // in which it was awake and nothing happened
	gaveUp   bool
}

// bufferBytes is how much is read at once: what the nearest cache of a CPU holds.
const bufferBytes = 32 << 10

func newWorker(p *Plan, t *Target, expect *atomic.Int64, origin time.Time, connections int) (*worker, error) {
	poll, err := newPoll()
	if err != nil {
		return nil, err
	}
	w := &worker{
		plan: p, to: addressOf(t.At), request: t.request(p.KeepAlive), expect: expect, origin: origin,
		poll: poll, conns: make([]conn, connections), free: newQueue(connections), buffer: make([]byte, bufferBytes), tally: newTally(),
	}
	for i := range w.conns {
		w.conns[i] = conn{key: i, fd: -1, response: newResponse()}
		w.free.push(i)
	}
	return w, nil
}

func (w *worker) clock() time.Duration { return time.Since(w.origin) }

// run sends requests until there are no more, and every one was answered or has
// failed.
func (w *worker) run(p pace) {
	w.pace, w.lastGood = p, p.begin
	catchUp := w.catchUp // made once
	for w.now = w.clock(); !w.over(); w.now = w.clock() {
		w.hand(catchUp)
		events := w.await()
		w.now = w.clock()
		for i := range events {
			w.handle(&w.conns[events[i].Fd], events[i].Events)
			w.hand(nil)
		}
		w.look()
	}
}

func (w *worker) over() bool { return w.gaveUp || w.busy == 0 && w.pace.ended(w.now) }

// hand gives requests to connections that are free. One that has waited for a
// connection until its time was up has failed. After each connection that has to be made
// it does what there is to do between, which may be nil.
func (w *worker) hand(between func()) {
	for range w.free.len() { // what becomes free between has its turn later
		origin, ok := w.pace.next(w.now)
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

// catchUp sees to what has happened. Where many connections are made, one that is there
// is not to wait until all others are begun: its time would be theirs.
func (w *worker) catchUp() {
	events := w.poll.wait(0)
	w.now = w.clock()
	for i := range events {
		w.handle(&w.conns[events[i].Fd], events[i].Events)
	}
}

var (
	errWaited = errors.New("all connections were busy until its time was up")
	errMore   = errors.New("more came than the answer has")
)

// lookEvery is how often connections are looked through for those whose time is
// up.
const lookEvery = 10 * time.Millisecond

// awake is about what a sleep costs.
const awake = 10 * time.Microsecond

// await waits until something happens, or is to be done.
func (w *worker) await() []unix.EpollEvent {
	if w.pace.each > 0 {
		w.now = w.clock() // to send took a while
	}
	began := w.now
	for w.stays(began) {
		if events := w.poll.wait(0); len(events) > 0 {
			w.vain += w.now - began
			return events
		}
		w.now = w.clock()
	}
	w.vain += min(w.now-began, awake)
	return w.poll.wait(w.nap())
}

// stays tells whether to ask again rather than to sleep. In a closed loop all that it
// waits for is under way at the server, which would pay for a part of the waking; an
// open loop knows when it is to wake at the latest.
func (w *worker) stays(began time.Duration) bool {
	if w.pace.each == 0 {
		return w.now < began+awake
	}
	nap := w.nap()
	return 0 < nap && nap < awake
}

// nap is how long nothing has to be done unless something happens.
func (w *worker) nap() time.Duration {
	limit := w.looked + lookEvery - w.now
	if w.pace.each > 0 && w.free.len() > 0 && !w.pace.ended(w.now) {
		limit = min(limit, w.pace.due()-w.now)
	}
	return limit
}

// look sees to connections whose time is up: those that rest are free again, and
// what is under way on others has failed.
func (w *worker) look() {
	if w.now-w.looked < lookEvery {
		return
	}
	w.looked = w.now
	for i := range w.conns {
		c := &w.conns[i]
		if c.phase == idle || c.deadline > w.now {
			continue
		}
		switch c.phase {
		case resting:
			w.release(c)
		case closing:
			w.drop(c)
			w.release(c)
		default:
			w.fail(c, FailedTime, unix.ETIMEDOUT)
		}
	}
	w.gaveUp = w.gaveUp || w.busy > 0 && w.impatient()
}

// impatient reports whether nothing good has come for too long.
func (w *worker) impatient() bool {
	return w.now-w.lastGood > max(patience*w.plan.Timeout, leastPatience)
}

// patience is after how many times the time of one request nobody is asked any
// more, if none was answered; leastPatience is how long that is at least.
const (
	patience      = 3
	leastPatience = 3 * time.Second
)

// end closes everything. What is under way when nobody is asked any more has
// failed.
func (w *worker) end() {
	for i := range w.conns {
		c := &w.conns[i]
		switch c.phase {
		case connecting, sending, receiving:
			w.count(FailedTime, c.origin, unix.ETIMEDOUT)
		}
		if c.fd >= 0 {
			reset(c.fd)
			c.fd = -1
		}
	}
	w.poll.close()
}

// count counts a failure.
func (w *worker) count(k Kind, origin time.Duration, why error) {
	w.tally.fail(k, why, origin >= w.pace.from)
}

// record counts an answer that is whole, and what it took.
func (w *worker) record(c *conn) {
	w.lastGood, w.failing = w.now, false
	if c.origin < w.pace.from {
		if w.pace.carries(w.now) {
			w.tally.carried(w.now, c.got)
		}
		return
	}
	began := c.sent
	if w.pace.each > 0 {
		began = c.origin
	}
	w.tally.answer(times{c.origin, began, c.first, w.now}, c.fresh, c.got, c.response.body, w.now <= w.pace.until)
}

// verdict is why an answer that is whole is not a good one. Expect is how long its
// body is to be; -1 takes the first for an example.
func verdict(status int, body int64, expect *atomic.Int64) (Kind, error) {
	if status < 200 || status > 299 {
		return FailedStatus, statusError(status)
	}
	want := expect.Load()
	if want < 0 && !expect.CompareAndSwap(want, body) {
		want = expect.Load() // of another thread, just now
	}
	if want >= 0 && body != want {
		return FailedLength, lengthError{body, want}
	}
	return 0, nil
}

// The errors below are made of numbers, since one may be made for each request.
type (
	statusError int
	lengthError struct{ got, want int64 }
)

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

func (e lengthError) Error() string {
	return fmt.Sprintf("a body of %d bytes in place of %d", e.got, e.want)
}

// kindOf is what a system's error on a connection means.
func kindOf(errno syscall.Errno) Kind {
	if errno == unix.ETIMEDOUT {
		return FailedTime
	}
	return FailedRead
}
