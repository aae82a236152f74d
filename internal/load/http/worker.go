package http

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/client"
	"github.com/tare-bench/tare/internal/load/socket"
)

// A worker is one thread of the client with its connections. Free are those that are idle.
type worker struct {
	client.Thread
	plan    *Plan
	to      socket.Address
	request []byte
	expect  *atomic.Int64 // bytes of a body, for all threads; -1 until the first answer

	conns  []conn
	buffer []byte
	tally  tally

	sent     int64 // requests, with those that do not count
	lastGood time.Duration
	failing  bool // a request has failed since lastGood
	gaveUp   bool
}

// bufferBytes is how much is read at once: what fits into the first-level cache of a CPU.
const bufferBytes = 32 << 10

func newWorker(p *Plan, t *Target, expect *atomic.Int64, connections int) (*worker, error) {
	thread, err := client.New(connections, deadlineInterval, true)
	if err != nil {
		return nil, err
	}
	w := &worker{
		Thread: thread, plan: p, to: socket.AddressOf(t.At), request: t.request(p.KeepAlive), expect: expect,
		conns: make([]conn, connections), buffer: make([]byte, bufferBytes), tally: newTally(),
	}
	for i := range w.conns {
		w.conns[i] = conn{key: i, fd: -1, response: newResponse()}
		w.Free.Push(i)
	}
	return w, nil
}

// run sends requests until there are no more, and each was answered or has failed.
func (w *worker) run(s client.Schedule) {
	w.Schedule, w.lastGood = s, s.Begin
	catchUp := w.handleEvents // made once
	for w.Read(); !w.over(); w.Read() {
		if w.Busy == 0 && w.Turn.Over(w.Now) {
			w.Turn.Rest(w.Now)
			w.handleEvents() // a server may have closed connections that rested
		}
		w.dispatch(catchUp)
		events := w.Await()
		w.Read()
		for i := range events {
			w.handle(&w.conns[events[i].Fd], events[i].Events)
			w.dispatch(nil)
		}
		w.checkDeadlines()
	}
}

func (w *worker) over() bool { return w.gaveUp || w.Busy == 0 && w.Schedule.Ended(w.Now) }

// dispatch gives requests to idle connections. A request that has waited for a connection
// until its timeout has failed. After each connection that it begins to make, it calls between,
// which may be nil.
func (w *worker) dispatch(between func()) {
	if w.Turn.Over(w.Now) {
		return // what is under way is answered, and then the thread rests
	}
	for range w.Free.Len() { // connections that become idle in between wait for the next call
		origin, ok := w.Schedule.Next(w.Now)
		if !ok {
			return
		}
		if origin+w.plan.Timeout <= w.Now {
			w.count(FailedTime, origin, errWaited)
			continue
		}
		c := &w.conns[w.Free.Pop()]
		if w.begin(c, origin); c.phase == connecting && between != nil {
			between()
		}
	}
}

// handleEvents handles pending events. If many connections are made, one that is established
// must not wait until all others have begun: its time would include theirs.
func (w *worker) handleEvents() {
	events := w.Poll.Wait(0)
	w.Read()
	for i := range events {
		w.handle(&w.conns[events[i].Fd], events[i].Events)
	}
}

var (
	errWaited = errors.New("all connections were busy until the timeout")
	errMore   = errors.New("the server sent more than the answer")
)

// deadlineInterval is the interval at which checkDeadlines looks at connections.
const deadlineInterval = 10 * time.Millisecond

// checkDeadlines handles deadlines: connections that closed or backed off become idle, and requests
// past their timeout fail.
func (w *worker) checkDeadlines() {
	if !w.MustCheck() {
		return
	}
	for i := range w.conns {
		c := &w.conns[i]
		if c.phase == idle || c.deadline > w.Now {
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
	w.gaveUp = w.gaveUp || w.Busy > 0 && w.shouldGiveUp()
}

// shouldGiveUp reports whether there was no good answer for too long.
func (w *worker) shouldGiveUp() bool {
	return w.Now-w.lastGood > max(maxTimeouts*w.plan.Timeout, minGiveUpTime)
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
	w.Poll.Close()
}

// count counts a failure.
func (w *worker) count(k Kind, origin time.Duration, why error) {
	w.tally.fail(k, why, origin >= w.Schedule.CountFrom)
}

// record counts a complete answer, with its times.
func (w *worker) record(c *conn) {
	w.lastGood, w.failing = w.Now, false
	w.Turn.Did(1)
	if c.origin < w.Schedule.CountFrom {
		if w.Schedule.Overlaps(w.Now) {
			w.tally.addOverlap(w.Now, c.got)
		}
		return
	}
	began := c.sent
	if w.Schedule.Open() {
		began = c.origin
	}
	w.tally.answer(times{c.origin, began, c.first, w.Now}, c.newForRequest, c.got, c.response.body,
		w.Now <= w.Schedule.Until)
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
