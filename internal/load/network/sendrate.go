package network

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sendRate is the speed at which datagrams are sent.
type sendRate struct{ each time.Duration } // from one to the next, in picoseconds; 0 = as fast as possible

const pico = 1000 // of a nanosecond

// newSendRate returns the tempo of a rate in bytes per second.
func newSendRate(rate int64, size int) sendRate {
	if rate == 0 {
		return sendRate{}
	}
	return sendRate{time.Duration(float64(size) / float64(rate) * float64(time.Second) * pico)}
}

// dueTime is when a datagram is due, since the first one.
func (t sendRate) dueTime(number uint64) time.Duration {
	return time.Duration(float64(number) * float64(t.each) / pico)
}

// batch is how many datagrams may be sent at once: those of one millisecond.
func (t sendRate) batch(most int) int {
	if t.each == 0 {
		return most
	}
	return int(max(1, min(int64(most), int64(time.Millisecond)*pico/int64(max(1, t.each)))))
}

// spinTime is how long before its time a thread stops sleeping: the kernel wakes it
// some 50 µs late.
const spinTime = 100 * time.Microsecond

// until waits for a time of this side's clock. It returns false if the side stops sending.
func (s *side) until(due time.Duration) bool {
	for left := due - s.now(); left > 0; left = due - s.now() {
		if s.sendingOver.Load() {
			return false
		}
		if left > spinTime {
			sleepUntimed(min(left-spinTime, wakeInterval))
		}
	}
	return true
}

// sleepUntimed sleeps with a call that Go's scheduler does not see.
func sleepUntimed(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_, _, _ = syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0) // callers check the time again
}
