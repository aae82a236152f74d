package network

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A flow is one socket of a session, and what goes through it in one direction.
type flow struct {
	fd        int
	sends     bool          // this side does
	bytes     atomic.Int64  // that came in
	datagrams atomic.Uint64 // that were sent, or came in

	// Of the thread that works on it, until that has ended.
	arrivals arrivals
	err      error
}

// pour sends a stream of bytes until it is told to stop.
func (s *side) pour(f *flow) {
	buffer := make([]byte, s.plan.Size)
	for !s.quiet.Load() {
		if _, errno := send(f.fd, buffer); errno != 0 && !again(errno) {
			f.err = s.fault(errno)
			return
		}
	}
}

// drain takes in a stream of bytes until it ends.
func (s *side) drain(f *flow) {
	buffer := make([]byte, max(s.plan.Size, leastRead))
	for !s.stop.Load() {
		n, errno := receive(f.fd, buffer)
		switch {
		case errno == 0 && n == 0:
			f.err = s.fault(unix.ECONNRESET)
			return
		case errno == 0:
			f.bytes.Add(int64(n))
		case !again(errno):
			f.err = s.fault(errno)
			return
		}
	}
}

// leastRead is how much a receiver takes at once where writes are smaller: what
// came with several of them.
const leastRead = 128 << 10
