package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// listen opens the TCP port and the UDP port of the same number. Port 0 means any free
// port.
func listen(addr netip.AddrPort) (tcpFD, udpFD int, bound netip.AddrPort, err error) {
	const tries = 20 // a port that is free for TCP may be in use for UDP
	for range tries {
		if tcpFD, err = bind(addr, unix.SOCK_STREAM); err != nil {
			return 0, 0, bound, listenError(addr, tcp, err)
		}
		if bound, err = boundTo(tcpFD); err == nil {
			udpFD, err = bind(bound, unix.SOCK_DGRAM)
		}
		if err == nil {
			err = unix.Listen(tcpFD, 2*maxStreams)
		}
		if err == nil {
			return tcpFD, udpFD, bound, nil
		}
		closeAll(tcpFD)
		if addr.Port() != 0 || !errors.Is(err, unix.EADDRINUSE) {
			return 0, 0, bound, listenError(addr, udp, err)
		}
	}
	return 0, 0, bound, listenError(addr, udp, err)
}

func listenError(addr netip.AddrPort, protocol string, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf(
			"%s port %d is in use by another program: choose another port with port=", protocol, addr.Port())
	}
	return fmt.Errorf("listen on %s %v: %w", protocol, addr, err)
}

func bind(addr netip.AddrPort, kind int) (int, error) {
	fd, err := socket(addr, kind)
	if err != nil {
		return 0, err
	}
	if kind == unix.SOCK_STREAM {
		// Connections of an earlier server on this port are no reason to fail.
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err = errors.Join(err, unix.Bind(fd, sockaddr(addr))); err != nil {
		closeAll(fd)
		return 0, err
	}
	return fd, nil
}

func socket(addr netip.AddrPort, kind int) (int, error) {
	family := unix.AF_INET
	if addr.Addr().Is6() {
		family = unix.AF_INET6
	}
	return unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
}

func sockaddr(addr netip.AddrPort) unix.Sockaddr {
	if addr.Addr().Is6() {
		return &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
}

func boundTo(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), err
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)), err
	default:
		return netip.AddrPort{}, errors.Join(errors.New("a socket of another family"), err)
	}
}

// peerSocket returns a UDP socket that has the port of a listening one, and exchanges
// datagrams with one peer only.
func peerSocket(bound netip.AddrPort, peer unix.Sockaddr) (int, error) {
	fd, err := socket(bound, unix.SOCK_DGRAM)
	if err != nil {
		return 0, err
	}
	err = errors.Join(reusePort(fd), unix.Bind(fd, sockaddr(bound)), unix.Connect(fd, peer))
	if err != nil {
		closeAll(fd)
		return 0, fmt.Errorf("a socket for a peer: %w", err)
	}
	return fd, nil
}

// reusePort lets several sockets of this user have the same port. It is set after the
// first one was bound, so that its bind fails if the port is in use.
func reusePort(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }

// dial connects within a time limit. With UDP nothing is sent.
func dial(addr netip.AddrPort, kind int, limit time.Duration) (int, error) {
	fd, err := socket(addr, kind|unix.SOCK_NONBLOCK)
	if err != nil {
		return 0, fmt.Errorf("%w at %v: %w", ErrUnreachable, addr, err)
	}
	err = unix.Connect(fd, sockaddr(addr))
	if errors.Is(err, unix.EINPROGRESS) {
		err = connected(fd, limit)
	}
	if err = errors.Join(err, unix.SetNonblock(fd, false)); err != nil {
		closeAll(fd)
		return 0, fmt.Errorf("%w at %v: %w", ErrUnreachable, addr, err)
	}
	return fd, nil
}

// connected waits for the end of a connect.
func connected(fd int, limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		left := time.Until(end)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err == nil && code != 0 {
				err = unix.Errno(code)
			}
			return err
		}
	}
}

// wakeInterval is the longest time that a thread blocks on the network before it checks
// whether it must stop.
const wakeInterval = 100 * time.Millisecond

// ready sets up a socket for data: no call on it blocks longer than wake.
func ready(fd int, protocol string, wake time.Duration) error {
	tv := unix.NsecToTimeval(int64(wake))
	err := errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv))
	if protocol == tcp {
		return errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	}
	// Not SO_RCVBUFFORCE: a privileged process could get a larger buffer than a container,
	// and the two would differ in that alone.
	return errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, datagramBuffer))
}

// datagramBuffer is the requested size of the receive buffer, in bytes.
const datagramBuffer = 4 << 20

// closeAll closes sockets that are no longer needed. It ignores errors, which could only
// concern data that nobody waits for.
func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
