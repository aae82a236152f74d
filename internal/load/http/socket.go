package http

import (
	"fmt"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below do not tell Go's scheduler that they may block: see load/network. A
// thread that uses them keeps a processor of Go's scheduler to itself.

// send sends p, which is not empty, on a connected socket.
func send(fd int, p []byte, flags int) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		uintptr(unix.MSG_NOSIGNAL|flags), 0, 0)
	return int(n), errno
}

// receive reads into p, which is not empty, from a connected socket.
func receive(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])),
		uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

// An address is the address of a server in the kernel's format.
type address struct {
	family int
	raw    [unix.SizeofSockaddrInet6]byte
	size   uintptr
}

func addressOf(to netip.AddrPort) address {
	port := func(p *uint16) { *(*[2]byte)(unsafe.Pointer(p)) = [2]byte{byte(to.Port() >> 8), byte(to.Port())} }
	var a address
	if to.Addr().Is6() {
		a.family, a.size = unix.AF_INET6, unix.SizeofSockaddrInet6
		sa := (*unix.RawSockaddrInet6)(unsafe.Pointer(&a.raw))
		sa.Family, sa.Addr = unix.AF_INET6, to.Addr().As16()
		port(&sa.Port)
		return a
	}
	a.family, a.size = unix.AF_INET, unix.SizeofSockaddrInet4
	sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&a.raw))
	sa.Family, sa.Addr = unix.AF_INET, to.Addr().As4()
	port(&sa.Port)
	return a
}

// dial begins to connect; the socket becomes writable when it is connected.
func dial(to *address) (int, syscall.Errno) {
	const kind = unix.SOCK_STREAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	fd, _, errno := syscall.RawSyscall(unix.SYS_SOCKET, uintptr(to.family), kind, 0)
	if errno != 0 {
		return -1, errno
	}
	set(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_, _, errno = syscall.RawSyscall(unix.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&to.raw)), to.size)
	if errno != 0 && errno != unix.EINPROGRESS {
		closeFD(int(fd))
		return -1, errno
	}
	return int(fd), 0
}

// set sets an option that a TCP socket always has.
func set(fd, level, option int, value int32) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&value)), unsafe.Sizeof(value), 0)
}

// trouble returns why a socket could not connect.
func trouble(fd int) syscall.Errno {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil || code == 0 {
		return unix.ECONNABORTED
	}
	return syscall.Errno(code)
}

func closeFD(fd int) { _, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// reset closes a connection with a reset, so that neither side keeps its port in
// TIME_WAIT for a minute.
func reset(fd int) {
	linger := unix.Linger{Onoff: 1}
	_, _, _ = syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER,
		uintptr(unsafe.Pointer(&linger)), unsafe.Sizeof(linger), 0)
	closeFD(fd)
}

// A poll waits for events on many sockets.
type poll struct {
	fd     int
	events [128]unix.EpollEvent
	coarse bool // the kernel waits for whole milliseconds only
}

// edges are the events to report, each once when it happens.
const edges uint32 = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

func newPoll() (*poll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poll{fd: fd}, nil
}

func (p *poll) close() { closeFD(p.fd) }

// add watches a socket until it is closed.
func (p *poll) add(fd, key int, events uint32) syscall.Errno {
	e := unix.EpollEvent{Events: events, Fd: int32(key)}
	_, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.fd), unix.EPOLL_CTL_ADD, uintptr(fd),
		uintptr(unsafe.Pointer(&e)), 0, 0)
	return errno
}

// wait waits for events, at most for limit. If the kernel only supports whole
// milliseconds, a shorter limit means not to wait: the caller polls.
func (p *poll) wait(limit time.Duration) []unix.EpollEvent {
	limit = max(limit, 0)
	if !p.coarse {
		t := unix.NsecToTimespec(int64(limit))
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
			uintptr(len(p.events)), uintptr(unsafe.Pointer(&t)), 0, 0)
		switch errno {
		case 0:
			return p.events[:n]
		case unix.ENOSYS, unix.EPERM:
			p.coarse = true
		default:
			return nil // interrupted
		}
	}
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), uintptr(limit.Milliseconds()), 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// precise makes the kernel wake this thread on time, and not up to 50 µs later to save
// wake-ups.
func precise() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // on an error, the default slack stays
}
