// Package socket is what loads need of stream sockets: system calls on non-blocking descriptors,
// and waiting for many of them at once (epoll).
//
// The calls do not tell Go's scheduler that they may block: see load/network. A thread that uses
// them keeps a processor of Go's scheduler to itself.
package socket

import (
	"fmt"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Send sends p, which is not empty, on a connected socket.
func Send(fd int, p []byte, flags int) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		uintptr(unix.MSG_NOSIGNAL|flags), 0, 0)
	return int(n), errno
}

// Receive reads into p, which is not empty, from a connected socket.
func Receive(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])),
		uintptr(len(p)), 0, 0, 0)
	return int(n), errno
}

// An Address is the address of a server in the kernel's format.
type Address struct {
	family int
	raw    [unix.SizeofSockaddrUnix]byte
	size   uintptr
}

// AddressOf returns the address of a TCP server.
func AddressOf(to netip.AddrPort) Address {
	port := func(p *uint16) { *(*[2]byte)(unsafe.Pointer(p)) = [2]byte{byte(to.Port() >> 8), byte(to.Port())} }
	var a Address
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

// UnixAddressOf returns the address of a server with a Unix socket. The kernel allows only short
// paths.
func UnixAddressOf(path string) (Address, error) {
	var a Address
	sa := (*unix.RawSockaddrUnix)(unsafe.Pointer(&a.raw))
	if path == "" || len(path) >= len(sa.Path) {
		return a, fmt.Errorf("the path of the socket %s has %d bytes: want 1 to %d", path, len(path), len(sa.Path)-1)
	}
	sa.Family = unix.AF_UNIX
	for i := range len(path) {
		sa.Path[i] = int8(path[i])
	}
	a.family, a.size = unix.AF_UNIX, unix.SizeofSockaddrUnix
	return a, nil
}

// Dial begins to connect; the socket becomes writable when it is connected.
func Dial(to *Address) (int, syscall.Errno) {
	const kind = unix.SOCK_STREAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	fd, _, errno := syscall.RawSyscall(unix.SYS_SOCKET, uintptr(to.family), kind, 0)
	if errno != 0 {
		return -1, errno
	}
	if to.family != unix.AF_UNIX {
		Set(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&to.raw)), to.size)
	if errno != 0 && errno != unix.EINPROGRESS {
		Close(int(fd))
		return -1, errno
	}
	return int(fd), 0
}

// Set sets an option that a TCP socket always has.
func Set(fd, level, option int, value int32) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&value)), unsafe.Sizeof(value), 0)
}

// Trouble returns why a socket could not connect.
func Trouble(fd int) syscall.Errno {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil || code == 0 {
		return unix.ECONNABORTED
	}
	return syscall.Errno(code)
}

// Close closes a socket.
func Close(fd int) { _, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// Reset closes a connection with a reset, so that neither side keeps its port in
// TIME_WAIT for a minute.
func Reset(fd int) {
	linger := unix.Linger{Onoff: 1}
	_, _, _ = syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER,
		uintptr(unsafe.Pointer(&linger)), unsafe.Sizeof(linger), 0)
	Close(fd)
}

// A Poll waits for events on many sockets.
type Poll struct {
	fd     int
	events [128]unix.EpollEvent
	coarse bool // the kernel waits for whole milliseconds only
}

// Edges are the events to report, each once when it happens.
const Edges uint32 = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// Incoming are Edges but for room to send: where the sender waits for that by itself, it would only
// wake it. A Unix socket tells of room after every message.
const Incoming = Edges &^ unix.EPOLLOUT

// NewPoll returns a poll without sockets. Close it after use.
func NewPoll() (*Poll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &Poll{fd: fd}, nil
}

// Close closes the poll, and no socket.
func (p *Poll) Close() { Close(p.fd) }

// Add watches a socket until it is closed. Its events have the key in their field Fd.
func (p *Poll) Add(fd, key int, events uint32) syscall.Errno {
	return p.control(unix.EPOLL_CTL_ADD, fd, key, events)
}

// Change changes which events of a socket are watched. What is there already is an event, too.
func (p *Poll) Change(fd, key int, events uint32) syscall.Errno {
	return p.control(unix.EPOLL_CTL_MOD, fd, key, events)
}

func (p *Poll) control(operation uintptr, fd, key int, events uint32) syscall.Errno {
	e := unix.EpollEvent{Events: events, Fd: int32(key)}
	_, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.fd), operation, uintptr(fd),
		uintptr(unsafe.Pointer(&e)), 0, 0)
	return errno
}

// Wait waits for events, at most for limit. If the kernel only supports whole
// milliseconds, a shorter limit means not to wait: the caller polls.
func (p *Poll) Wait(limit time.Duration) []unix.EpollEvent {
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

// Precise makes the kernel wake this thread on time, and not up to 50 µs later to save
// wake-ups.
func Precise() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // on an error, the default slack stays
}
