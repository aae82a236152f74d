package netpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// publishedPath tells what happens to a packet to a published port once it is on loopback: the kernel
// rewrites its address, or a program receives it and passes it on, from this namespace or from the
// container's own.
func (t target) publishedPath(ctx context.Context, pid int, own Link) ([]string, error) {
	conn, err := t.dial(ctx)
	if errors.Is(err, unix.ECONNREFUSED) {
		return []string{Unknown}, nil // no process listens, so there is nothing to see
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing more is sent
	from, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	rewritten, err := t.natFollowed(from)
	if errors.Is(err, fs.ErrPermission) {
		rewritten, err = t.natFollowedUser(from)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return []string{Unknown}, nil
	case err != nil:
		return nil, err
	case rewritten:
		return append([]string{NAT}, own.Words()...), nil
	}
	return t.proxy(pid, own)
}

// dial sends a packet to the target.
func (t target) dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, t.protocol, t.address.String())
	if err == nil && t.protocol == "udp" {
		_, err = conn.Write(nil)
	}
	return conn, err
}

// natFollowed reports whether the kernel sends packets from that address to an address that is not the
// target's. A kernel without connection tracking rewrites no address.
func (t target) natFollowed(from netip.AddrPort) (bool, error) {
	flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	if err != nil {
		return false, fmt.Errorf("list the connections that the kernel tracks: %w", err)
	}
	for _, f := range flows {
		if protocolOf(f.Forward.Protocol) == t.protocol && tuple(f.Forward.SrcIP, f.Forward.SrcPort) == from &&
			tuple(f.Forward.DstIP, f.Forward.DstPort) == t.address {
			return tuple(f.Reverse.SrcIP, f.Reverse.SrcPort) != t.address, nil
		}
	}
	return false, nil
}

func protocolOf(number uint8) string {
	switch number {
	case unix.IPPROTO_TCP:
		return "tcp"
	case unix.IPPROTO_UDP:
		return "udp"
	}
	return ""
}

// natFollowedUser replaces followed for an ordinary user. It reports whether a connection from that address
// has left this namespace, because no socket in it is its other end. A datagram leaves no trace. If
// a program that this user may inspect listens (proxy finds only such programs), the packet has not
// left: a user who starts such a program cannot make the kernel rewrite addresses.
func (t target) natFollowedUser(from netip.AddrPort) (bool, error) {
	if t.protocol != "tcp" {
		return false, nil
	}
	all, err := t.sockets()
	return !slices.ContainsFunc(all, func(s socket) bool { return s.local == t.address && s.remote == from }), err
}

func tuple(ip net.IP, port uint16) netip.AddrPort {
	address, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(address.Unmap(), port)
}

// proxy is the program that listens at the target, and the path behind it.
func (t target) proxy(pid int, own Link) ([]string, error) {
	who, err := t.listener()
	if err != nil {
		return nil, err
	}
	if who == 0 {
		return []string{Unknown}, nil
	}
	path := []string{nameOf(who)}
	if path[0] == own.Program {
		return append(path, own.Kind), nil
	}
	ns, err := os.Stat(filepath.Join(dirOf(pid), "ns/net"))
	if err != nil {
		return nil, err
	}
	inside, err := childIn(who, ns)
	switch {
	case err != nil:
		return nil, err
	case inside: // it connects inside, to an address of the container's own
		return append(path, Loopback), nil
	}
	return append(path, own.Words()...), nil
}

// listener returns the process that listens at the target; 0 if none is visible.
func (t target) listener() (pid int, err error) {
	all, err := t.sockets()
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if !s.listensAt(t.address) {
			continue
		}
		err := eachProcess(func(other int) bool {
			if ownsSocket(other, s.inode) {
				pid = other
			}
			return pid == 0
		})
		if err != nil || pid != 0 {
			return pid, err
		}
	}
	return 0, nil
}
