package netpath

import (
	"errors"
	"net"
	"net/netip"
)

// FreePort returns a port at an address of this host that is free now in all of the given protocols
// ("tcp", "udp"). The unspecified address means all addresses. Another program may take the port
// before the caller does.
func FreePort(at netip.Addr, protocols ...string) (port uint16, err error) {
	const tries = 20 // a port that is free in one protocol may be taken in the other
	for range tries {
		if port, err = freePort(at, protocols); err == nil {
			break
		}
	}
	return port, err
}

func freePort(at netip.Addr, protocols []string) (port uint16, err error) {
	for _, protocol := range protocols {
		on := netip.AddrPortFrom(at, port) // 0 lets the kernel choose
		if protocol == "udp" {
			c, failed := net.ListenUDP("udp", net.UDPAddrFromAddrPort(on))
			if failed != nil {
				return 0, failed
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			port = c.LocalAddr().(*net.UDPAddr).AddrPort().Port() // the type is known from the protocol
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
