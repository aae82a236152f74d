// Package netpath reads from the kernel what a packet passes on its way from a client to a
// container: bridges, veth pairs, NAT, proxies. It assumes nothing from an engine's name or from
// what was requested.
//
// It examines containers through /proc/PID/ns/net, from a thread of this process, without
// disturbing theirs. If this user lacks the right, or if a process is not visible from here, the
// result is Unknown, which is not an error.
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

// The parts of a path, besides the names of proxies.
const (
	Loopback = "loopback" // the loopback interface of a network namespace
	NAT      = "NAT"      // the kernel rewrites the packet's address
	Unknown  = "unknown"  // it cannot be read from here
)

// An Engine tells the process and the address of a container.
type Engine interface {
	bench.Addresser
	bench.ProcessReporter
}

// PathTo implements Addresser.Path for an engine's container; reach is its Spec's Reach.
//
// For a published port it sends a packet of its own: a TCP connection that it closes at once, or an
// empty UDP datagram. So it must not be called during a measurement.
func PathTo(ctx context.Context, e Engine, c bench.Container, p bench.Port, reach string) ([]string, error) {
	address, err := e.Address(ctx, c, p)
	if err != nil {
		return nil, err
	}
	pid, err := e.Pid(ctx, c)
	if err == nil {
		var path []string
		if path, err = pathInto(ctx, pid, target{p.Protocol, reachableAddress(address)}, reach); err == nil {
			return path, nil
		}
	}
	if isPermission(err) && ctx.Err() == nil {
		return []string{Unknown}, nil
	}
	return nil, fmt.Errorf("path to port %d of %.12s: %w", p.Container, c.ID(), err)
}

// reachableAddress replaces the unspecified address by the one at which other machines reach this host:
// ports for clients outside are published there.
func reachableAddress(to netip.AddrPort) netip.AddrPort {
	if !to.Addr().IsUnspecified() {
		return to
	}
	elsewhere := net.IPv4(198, 51, 100, 1) // reserved for documentation, so nobody has it
	routes, err := netlink.RouteGet(elsewhere)
	if err != nil || len(routes) == 0 {
		return bench.OnLoopback(to.Port()) // the host has no other address
	}
	return tuple(routes[0].Src, to.Port())
}

// isPermission reports whether an error means that something is not visible to this process.
func isPermission(err error) bool {
	return errors.Is(err, bench.ErrUnsupported) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, unix.ESRCH)
}

// A target is the address that a client sends to.
type target struct {
	protocol string
	address  netip.AddrPort
}

// pathInto is the path to the container whose first process is pid.
func pathInto(ctx context.Context, pid int, t target, reach string) ([]string, error) {
	same, err := readback.SameNamespace("net", pid, readback.Self)
	if err != nil {
		return nil, err
	}
	var first []string
	if same || reach != bench.ReachPeer { // a peer's packets do not enter from this host
		if first, err = outgoingInterface(t.address.Addr()); err != nil || same {
			return first, err
		}
	}
	own, err := Attachment(pid)
	if errors.Is(err, fs.ErrPermission) {
		own, err = Link{}, nil // the rest of the path is still readable
	}
	if err != nil {
		return nil, err
	}
	switch {
	case reach == bench.ReachPeer: // the peer is connected like this container
		return own.Words(), nil
	case reach == bench.ReachPublished:
		over, err := t.publishedPath(ctx, pid, own)
		return append(first, over...), err
	case len(first) > 0 && first[0] == own.Words()[0]: // the bridge is also where the host's packets enter
		return own.Words(), nil
	}
	return append(first, own.Words()...), nil
}

// outgoingInterface is the interface by which the host sends packets to an address.
func outgoingInterface(to netip.Addr) ([]string, error) {
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

// describe names an interface of the host and its kind. It omits the name of interfaces that tare
// made, because it is random.
func describe(link netlink.Link) string {
	name := link.Attrs().Name
	switch kind := link.Type(); {
	case name == "lo":
		return Loopback
	case kind == "device":
		return name
	case netdev.IsOwn(link.Attrs().Alias):
		return kind
	default:
		return kind + " " + name
	}
}
