package netpath

import (
	"errors"
	"net"
	"net/netip"
)

// FreePort returns a port that nobody listens on now, at an address of this host, in any
// of the protocols: "tcp", "udp". The unspecified address stands for all. Somebody may take
// the port before the caller does.
func FreePort(at netip.Addr, protocols ...string) (port uint16, err error) {
	const tries = 20 // what one protocol has free another may not
	for range tries {
		if port, err = freePort(at, protocols); err == nil {
			break
		}
	}
	return port, err
}

func freePort(at netip.Addr, protocols []string) (port uint16, err error) {
	for _, protocol := range protocols {
		on := netip.AddrPortFrom(at, port) // 0 has the kernel choose
		if protocol == "udp" {
			c, failed := net.ListenUDP("udp", net.UDPAddrFromAddrPort(on))
			if failed != nil {
				return 0, failed
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			port = c.LocalAddr().(*net.UDPAddr).AddrPort().Port() // the type that was asked for
			continue
		}
		l, failed := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(on))
		if failed != nil {
			return 0, failed
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		port = l.Addr().(*net.TCPAddr).AddrPort().Port() // as above
	}
	return port, nil
}
