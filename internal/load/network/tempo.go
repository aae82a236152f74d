package network

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A tempo is the speed at which datagrams are sent.
type tempo struct{ each time.Duration } // from one to the next, in picoseconds; 0 = as fast as possible

const pico = 1000 // of a nanosecond

// newTempo returns the tempo of a rate in bytes per second.
func newTempo(rate int64, size int) tempo {
	if rate == 0 {
		return tempo{}
	}
	return tempo{time.Duration(float64(size) / float64(rate) * float64(time.Second) * pico)}
}

// due is when a datagram is due, since the first one.
func (t tempo) due(number uint64) time.Duration {
	return time.Duration(float64(number) * float64(t.each) / pico)
}

// batch is how many datagrams may be sent at once: those of one millisecond.
func (t tempo) batch(most int) int {
	if t.each == 0 {
		return most
	}
	return int(max(1, min(int64(most), int64(time.Millisecond)*pico/int64(max(1, t.each)))))
}

// spin is how long before its time a thread stops sleeping: the kernel wakes it
// some 50 µs late.
const spin = 100 * time.Microsecond

// until waits for a time of this side's clock. It returns false if the side stops sending.
func (s *side) until(due time.Duration) bool {
	for left := due - s.now(); left > 0; left = due - s.now() {
		if s.quiet.Load() {
			return false
		}
		if left > spin {
			nap(min(left-spin, wakeEvery))
		}
	}
	return true
}

// nap sleeps with a call that Go's scheduler does not see.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_, _, _ = syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0) // callers check the time again
}
