package network

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below do not tell Go's scheduler that they may block. Otherwise it would take
// the thread's processor (GOMAXPROCS) away and give it back later, which takes several
// times as long as a datagram. So a thread that uses them keeps a processor to itself; see
// pool.

// send sends p, which is not empty, on a connected socket.
func send(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])),
		uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// receive reads into p, which is not empty, from a connected socket.
func receive(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])),
		uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

// isRetryable reports whether a call timed out or was interrupted.
func isRetryable(errno syscall.Errno) bool { return errno == unix.EAGAIN || errno == unix.EINTR }
