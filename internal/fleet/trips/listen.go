package trips

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// minToken is the shortest token, in bytes.
const minToken = 16

// wake is how often a thread that waits for a datagram looks whether it shall end.
const wake = 200 * time.Millisecond

// A Listener answers the requests of those who know the token.
type Listener struct {
	addr    netip.AddrPort
	fd      int
	tag     tag
	closing atomic.Bool
	running sync.WaitGroup
}

// Listen answers on a UDP address of this process's network; port 0 = any free one. token is the fleet's secret, at
// least 16 bytes.
func Listen(at netip.AddrPort, token []byte) (*Listener, error) {
	if err := checkToken(token); err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, fmt.Errorf("answer round trips at UDP %v: %w", at, err)
	}
	l := &Listener{tag: tagOf(token), addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	if l.fd, err = blocking(conn); err != nil {
		return nil, fmt.Errorf("answer round trips at UDP %v: %w", at, err)
	}
	l.running.Go(l.answer)
	return l, nil
}

func checkToken(token []byte) error {
	if len(token) < minToken {
		return fmt.Errorf("the fleet's token has %d bytes: want at least %d", len(token), minToken)
	}
	return nil
}

// Addr is where it listens.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Close stops to listen, and waits until nothing is answered any more: at most for a fifth of a second. It may be
// called once.
func (l *Listener) Close() error {
	l.closing.Store(true)
	l.running.Wait()
	return unix.Close(l.fd)
}

func (l *Listener) answer() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var p packet
	for !l.closing.Load() {
		n, from, err := unix.Recvfrom(l.fd, p[:], unix.MSG_TRUNC) // n is that of the datagram, however long
		if err != nil || from == nil || !p.is(n, l.tag, request) {
			continue // nobody learns why; and an error is that of one datagram, or that none came
		}
		p.setTime(atReceived, time.Now())
		p[atKind] = answer
		p.setTime(atSent, time.Now())
		_ = unix.Sendto(l.fd, p[:], unix.MSG_DONTWAIT, from) // if it is lost, the client says so
	}
}

// blocking takes a socket away from Go's scheduler, which would wake a thread for each datagram: a thread of its own
// waits for it in the kernel, and looks after itself after wake.
func blocking(conn *net.UDPConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, errors.Join(err, conn.Close())
	}
	fd := -1
	control := raw.Control(func(own uintptr) {
		if fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return
		}
		limit := unix.NsecToTimeval(int64(wake))
		err = errors.Join(unix.SetNonblock(fd, false), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	})
	err = errors.Join(control, err, conn.Close())
	if err != nil && fd >= 0 {
		err = errors.Join(err, unix.Close(fd))
	}
	return fd, err
}
