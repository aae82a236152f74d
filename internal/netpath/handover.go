package netpath

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// handover is what becomes of a packet to a published port once it is on
// loopback: the kernel rewrites its address, or a program takes it and sends it
// on, from this namespace or from the container's own.
func (t target) handover(ctx context.Context, pid int, own Link) ([]string, error) {
	from, done, err := t.send(ctx)
	if err != nil {
		return []string{Unknown}, ctx.Err() // nobody is there: nothing is to be seen
	}
	defer done()
	rewritten, err := t.rewritten(from)
	if errors.Is(err, fs.ErrPermission) {
		return []string{Unknown}, nil
	}
	if err != nil {
		return nil, err
	}
	if rewritten {
		return append([]string{NAT}, own.Words()...), nil
	}
	return t.proxy(pid, own)
}

// send sends something, and returns from which address.
func (t target) send(ctx context.Context) (from netip.AddrPort, done func(), err error) {
	conn, err := new(net.Dialer).DialContext(ctx, t.protocol, t.address.String())
	if err != nil {
		return from, nil, err
	}
	if t.protocol == "udp" {
		if _, err := conn.Write(nil); err != nil {
			return from, nil, errors.Join(err, conn.Close())
		}
	}
	from, err = netip.ParseAddrPort(conn.LocalAddr().String())
	return from, func() { _ = conn.Close() }, err // nothing is left to be said on it
}

// rewritten reports whether the kernel sends a packet from that address to
// another one than the target's.
func (t target) rewritten(from netip.AddrPort) (bool, error) {
	if t.protocol == "tcp" {
		// A connection that no socket here is the other end of has left.
		ends, err := t.sockets()
		return err == nil && !slices.ContainsFunc(ends, func(s socket) bool { return s.local == t.address && s.remote == from }), err
	}
	flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	if err != nil {
		return false, err
	}
	for _, f := range flows {
		if f.Forward.Protocol == unix.IPPROTO_UDP && tuple(f.Forward.SrcIP, f.Forward.SrcPort) == from && tuple(f.Forward.DstIP, f.Forward.DstPort) == t.address {
			return tuple(f.Reverse.SrcIP, f.Reverse.SrcPort) != t.address, nil
		}
	}
	return false, nil // where the kernel does not follow connections, it does not rewrite them
}

func tuple(ip net.IP, port uint16) netip.AddrPort {
	address, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(address.Unmap(), port)
}

// proxy is the program that listens at the target, and how it goes on.
func (t target) proxy(pid int, own Link) ([]string, error) {
	who, err := t.listener()
	if err != nil {
		return nil, err
	}
	if who == 0 {
		return []string{Unknown}, nil
	}
	path := []string{nameOf(who)}
	if path[0] == own.Holder {
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
	case inside: // and connects there, to an address of the container's own
		return append(path, Loopback), nil
	}
	return append(path, own.Words()...), nil
}

// listener returns the process that listens at the target; 0 where none is seen.
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
