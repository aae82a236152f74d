package network

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A flow is one socket of a session, with the counts of its one direction.
type flow struct {
	fd        int
	sends     bool          // this side sends
	bytes     atomic.Int64  // received
	datagrams atomic.Uint64 // sent or received

	// These belong to the flow's thread until it has ended.
	arrivals arrivals
	err      error
}

// pour sends a stream of bytes until s.quiet is set.
func (s *side) pour(f *flow) {
	buffer := make([]byte, s.plan.Size)
	for !s.quiet.Load() {
		if _, errno := send(f.fd, buffer); errno != 0 && !again(errno) {
			f.err = s.fault(errno)
			return
		}
	}
}

// drain receives a stream of bytes until it ends.
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

// leastRead is the smallest size of a receiver's buffer: one read can take several small
// writes.
const leastRead = 128 << 10
