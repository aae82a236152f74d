package http

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/load/socket"
)

// The phases of a connection. begin starts a request on an idle connection, handle reacts
// to events of its socket, and checkDeadlines to deadlines:
//
//	phase       ends when                              next phase
//	idle        it gets a request                      connecting; sending if it is open
//	connecting  the socket is writable                 sending
//	sending     the whole request is sent, mostly      receiving
//	            at once
//	receiving   the answer is complete                 idle; closing without keep-alive
//	closing     the server has closed, or closeTime    idle
//	            is over
//	backoff     backoffTime is over                    idle
//
// An error or the timeout in connecting, sending or receiving closes the connection and
// leads to backoff. If the server closes an idle connection, it stays idle, and the next
// request connects again.
//
// Each idle connection is in worker.Free. worker.Busy counts the connections that have a
// request: connecting, sending and receiving. Those that close or back off are in neither.

// phase is what a connection is doing.
type phase int

const (
	idle       phase = iota // it has no request; it may be open
	connecting              // for a request
	sending                 // the rest of a request that was not sent at once
	receiving               // an answer
	closing                 // until the server has closed it
	backoff                 // after a failure
)

// A conn is one connection, which is made again after it was closed.
type conn struct {
	key           int
	fd            int // -1 = closed
	phase         phase
	deadline      time.Duration // of the request, or the end of closing or backoff
	newForRequest bool          // it was made for the current request

	// Of the current or last request.
	origin   time.Duration // from when it is timed
	opened   time.Duration // when it began to connect
	sent     time.Duration // when it began to send
	first    time.Duration // when the first byte of the answer came; 0 = not yet
	unsent   int           // bytes
	got      int64         // bytes
	response response
}

// The lengths of phases without a request.
const (
	backoffTime = 10 * time.Millisecond // after a failure: it limits the number of failures
	closeTime   = time.Second           // for the server to close
)

// begin sends a request.
func (w *worker) begin(c *conn, origin time.Duration) {
	if w.Busy == 0 && !w.failing && w.plan.open() {
		w.lastGood = w.Now // there was no request that could have been answered
	}
	w.Busy++
	w.sent++
	c.origin, c.deadline = origin, origin+w.plan.Timeout
	c.first, c.got, c.unsent = 0, 0, len(w.request)
	c.response.reset()
	if c.newForRequest = c.fd < 0; !c.newForRequest {
		w.send(c)
		return
	}
	fd, errno := socket.Dial(&w.to)
	if errno == 0 {
		c.fd = fd
		errno = w.Poll.Add(fd, c.key, socket.Edges)
	}
	if errno != 0 {
		w.fail(c, FailedConnect, errno)
		return
	}
	c.phase, c.opened = connecting, w.Now
}

// handle reacts to an event of a connection's socket.
func (w *worker) handle(c *conn, events uint32) {
	ended := events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
	switch c.phase {
	case connecting:
		if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			w.fail(c, FailedConnect, socket.Trouble(c.fd))
		} else if events&unix.EPOLLOUT != 0 {
			w.Read()
			w.tally.connect.Add(w.Now - c.opened)
			w.send(c)
		}
	case sending:
		w.send(c)
	case receiving:
		w.receive(c, ended)
		if ended && c.phase == idle {
			w.drop(c) // the server closed right after its answer
		}
	case closing:
		w.drain(c)
	case idle:
		if c.fd >= 0 && events&(unix.EPOLLIN|unix.EPOLLRDHUP) != 0 {
			w.drop(c) // without a request, the server closed, or sent data that nobody requested
		}
	}
}

// send sends the rest of a request.
func (w *worker) send(c *conn) {
	if c.unsent == len(w.request) {
		c.sent = w.Now
	}
	n, errno := socket.Send(c.fd, w.request[len(w.request)-c.unsent:], 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		n = 0
	case errno != 0:
		w.fail(c, kindOf(errno), errno)
		return
	}
	if c.unsent -= n; c.unsent > 0 {
		c.phase = sending
		return
	}
	c.phase = receiving
}

// receive reads what has come. A read that does not fill the buffer has taken everything;
// later data cause a new event.
func (w *worker) receive(c *conn, ended bool) {
	for c.phase == receiving {
		n, errno := socket.Receive(c.fd, w.buffer)
		if errno == unix.EAGAIN {
			return
		}
		if errno == unix.EINTR {
			continue
		}
		w.Read()
		switch {
		case errno != 0:
			w.fail(c, kindOf(errno), errno)
		case w.Now >= c.deadline: // an endless answer can come as fast as it is read
			w.fail(c, FailedTime, unix.ETIMEDOUT)
		case n == 0:
			w.ended(c)
		default:
			w.take(c, w.buffer[:n])
		}
		if n < len(w.buffer) && !ended {
			return
		}
	}
}

// take reads a part of an answer.
func (w *worker) take(c *conn, p []byte) {
	if c.first == 0 {
		c.first = w.Now
	}
	c.got += int64(len(p))
	used, err := c.response.feed(p)
	switch {
	case err != nil:
		w.fail(c, FailedRead, err)
	case c.response.state != complete:
	case used < len(p):
		w.fail(c, FailedLength, errMore)
	default:
		w.answered(c)
	}
}

// ended handles the end of a connection, which may be the end of an answer.
func (w *worker) ended(c *conn) {
	if err := c.response.end(); err != nil {
		w.fail(c, FailedRead, err)
		return
	}
	w.answered(c)
}

// answered handles a complete answer.
func (w *worker) answered(c *conn) {
	if k, err := checkAnswer(c.response.status, c.response.body, w.expect); err != nil {
		if k != FailedStatus {
			w.fail(c, k, err)
			return
		}
		w.count(k, c.origin, err)
	} else {
		w.record(c)
	}
	w.Busy--
	if w.plan.KeepAlive && !c.response.closes {
		c.phase = idle
		w.Free.Push(c.key)
		return
	}
	c.phase, c.deadline = closing, w.Now+closeTime
	w.drain(c)
}

// drain waits until the server has closed. The side that closes first keeps its port in
// TIME_WAIT for a minute, and the client would run out of ports.
func (w *worker) drain(c *conn) {
	if _, errno := socket.Receive(c.fd, w.buffer[:1]); errno == unix.EAGAIN || errno == unix.EINTR {
		return
	}
	socket.Close(c.fd)
	c.fd = -1
	w.release(c)
}

// fail ends the current request and its connection.
func (w *worker) fail(c *conn, k Kind, why error) {
	w.count(k, c.origin, why)
	w.Busy--
	w.drop(c)
	w.gaveUp = w.gaveUp || w.failing && w.shouldGiveUp() // a server can refuse at once, so that w.Busy is always 0
	w.failing = true
	c.phase, c.deadline = backoff, w.Now+backoffTime
}

// drop closes a connection.
func (w *worker) drop(c *conn) {
	if c.fd >= 0 {
		socket.Reset(c.fd)
		c.fd = -1
	}
}

// release makes a connection free again.
func (w *worker) release(c *conn) {
	c.phase = idle
	w.Free.Push(c.key)
}
