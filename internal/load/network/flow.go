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

// sendStream sends a stream of bytes until s.quiet is set.
func (s *side) sendStream(f *flow) {
	buffer := make([]byte, s.plan.Size)
	for !s.sendingOver.Load() {
		s.resting.pass()
		if _, errno := send(f.fd, buffer); errno != 0 && !isRetryable(errno) {
			f.err = s.threadError(errno)
			return
		}
	}
}

// receiveStream receives a stream of bytes until it ends.
func (s *side) receiveStream(f *flow) {
	buffer := make([]byte, max(s.plan.Size, minRead))
	for !s.stop.Load() {
		n, errno := receive(f.fd, buffer)
		switch {
		case errno == 0 && n == 0:
			f.err = s.threadError(unix.ECONNRESET)
			return
		case errno == 0:
			f.bytes.Add(int64(n))
		case !isRetryable(errno):
			f.err = s.threadError(errno)
			return
		}
	}
}

// minRead is the smallest size of a receiver's buffer: one read can take several small
// writes.
const minRead = 128 << 10
