// Package netpath reads from the kernel what a packet passes on its way from a
// client to a container: bridges, veth pairs, NAT, programs that pass it on.
// Nothing is assumed from an engine's name or from what was asked of it.
//
// Containers are looked at through /proc/PID/ns/net, from a thread of this
// process; theirs are not disturbed. Where an ordinary user lacks the right, or
// a process is not seen from here, the word is Unknown, and that is no error.
package netpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// The words of a path, beside the names of programs that pass packets on.
const (
	Loopback = "loopback" // the loopback interface of a network namespace
	NAT      = "NAT"      // the kernel rewrites the packet's address
	Unknown  = "unknown"  // it cannot be read from here
)

// An Engine says which process a container is and where it is reached.
type Engine interface {
	bench.Addresser
	bench.Overseer
}

// Of is Addresser.Path for an engine's container, whose Spec has that Reach.
//
// Of a published port it is read by a packet of its own: a TCP connection that
// is closed at once, or an empty UDP datagram. So it is not called while
// something is measured.
func Of(ctx context.Context, e Engine, c bench.Container, p bench.Port, reach string) ([]string, error) {
	address, err := e.Address(ctx, c, p)
	if err != nil {
		return nil, err
	}
	pid, err := e.Pid(ctx, c)
	if err == nil {
		var path []string
		if path, err = way(ctx, pid, target{p.Protocol, outward(address)}, reach); err == nil {
			return path, nil
		}
	}
	if unreadable(err) && ctx.Err() == nil {
		return []string{Unknown}, nil
	}
	return nil, fmt.Errorf("path to port %d of %.12s: %w", p.Container, c.ID(), err)
}

// outward is the address by which others reach this host, for one that stands for
// all that it has: what comes from outside is published for them.
func outward(to netip.AddrPort) netip.AddrPort {
	if !to.Addr().IsUnspecified() {
		return to
	}
	elsewhere := net.IPv4(198, 51, 100, 1) // set aside for documentation: nobody's
	routes, err := netlink.RouteGet(elsewhere)
	if err != nil || len(routes) == 0 {
		return bench.OnLoopback(to.Port()) // there are no others
	}
	return tuple(routes[0].Src, to.Port())
}

// unreadable reports whether an error says that something is not to be seen.
func unreadable(err error) bool {
	return errors.Is(err, bench.ErrUnsupported) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// A target is what a client sends to.
type target struct {
	protocol string
	address  netip.AddrPort
}

// way is the path to a container whose first process has that number.
func way(ctx context.Context, pid int, t target, reach string) ([]string, error) {
	same, err := readback.SameNamespace("net", pid, readback.Self)
	if err != nil {
		return nil, err
	}
	var first []string
	if same || reach != bench.ReachPeer { // the way of a peer, from the network on, is not this host's
		if first, err = entry(t.address.Addr()); err != nil || same {
			return first, err
		}
	}
	own, err := Attachment(pid)
	if errors.Is(err, fs.ErrPermission) {
		own, err = Link{}, nil // what there is on the way to it can be seen
	}
	if err != nil {
		return nil, err
	}
	switch {
	case reach == bench.ReachPeer: // the peer's own end is like this one
		return own.Words(), nil
	case reach == bench.ReachPublished:
		over, err := t.handover(ctx, pid, own)
		return append(first, over...), err
	case len(first) > 0 && first[0] == own.Words()[0]: // the bridge is the host's way in
		return own.Words(), nil
	}
	return append(first, own.Words()...), nil
}

// entry is by which interface a packet of the host's leaves for an address.
func entry(to netip.Addr) ([]string, error) {
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil {
		return nil, fmt.Errorf("route to %v: %w", to, err)
	}
	if len(routes) == 0 {
		return []string{Unknown}, nil
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return nil, fmt.Errorf("interface on the route to %v: %w", to, err)
	}
	return []string{describe(link)}, nil
}

// describe names an interface of the host and its kind. The name of one that tare
// has made is another in each run and says nothing.
func describe(link netlink.Link) string {
	name := link.Attrs().Name
	switch kind := link.Type(); {
	case name == "lo":
		return Loopback
	case kind == "device":
		return name
	case netdev.Ours(link.Attrs().Alias):
		return kind
	default:
		return kind + " " + name
	}
}
