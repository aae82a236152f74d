package bench

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The values of Spec.Reach: how a client reaches a port of a container. The zero
// value is the container's own address.
const (
	ReachPublished = "published" // by a port of the host: see Port
	ReachPeer      = "peer"      // from a second container, by the container's own address
	// ReachSocket is a Unix socket in a directory of the host that is a bind mount of the
	// container. It goes with every network, and needs none.
	ReachSocket = "socket"
)

// MaxSocketPath is how many bytes the path of a Unix socket may have: sun_path without
// its end.
const MaxSocketPath = 107

// CheckNetwork reports why an engine with the named networks cannot honour a Spec's
// Network, Reach and Ports, or why no engine can; the error wraps ErrUnsupported. An
// empty Spec.Network means "none" unless networks has an empty name too.
func CheckNetwork(spec Spec, networks ...string) error {
	network := spec.Network
	if network == "" && !slices.Contains(networks, "") {
		network = "none"
	}
	own := network != "" && network != "none" && network != "host"
	var why string
	switch {
	case spec.Network != "" && !slices.Contains(networks, spec.Network):
		why = fmt.Sprintf("network %q: use %s", spec.Network, alternatives(networks))
	case !slices.Contains([]string{"", ReachPublished, ReachPeer, ReachSocket}, spec.Reach):
		why = fmt.Sprintf("reach %q: use %s, %s or %s, or leave it out for the container's own address",
			spec.Reach, ReachPublished, ReachPeer, ReachSocket)
	case spec.Reach == ReachSocket && len(spec.Ports) > 0:
		why = "reach socket: a Unix socket has no ports: leave them out"
	case spec.Reach == ReachSocket:
	case spec.Reach != "" && !own:
		why = fmt.Sprintf("reach %s needs a network of the container's own, such as bridge", spec.Reach)
	case len(spec.Ports) > 0 && network == "none":
		why = "ports: a container without a network cannot be reached: use network host or bridge"
	case spec.Reach == ReachPublished && network == "macvlan":
		why = "reach published: network macvlan cannot publish ports: use reach peer"
	case len(spec.Ports) > 0 && spec.Reach != ReachPeer && network == "macvlan":
		why = "network macvlan: the host cannot reach it through its parent interface: use reach peer"
	case len(spec.Ports) > 0 && spec.Reach != ReachPublished && isUserMode(network):
		why = fmt.Sprintf("network %s: it has no address that a client can reach: use reach published", network)
	default:
		why = checkPorts(spec)
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnsupported, why)
}

// isUserMode reports whether the packets of a network pass a program of the user.
func isUserMode(network string) bool { return network == "slirp4netns" || network == "pasta" }

func checkPorts(spec Spec) string {
	for _, p := range spec.Ports {
		switch {
		case p.Protocol != "tcp" && p.Protocol != "udp":
			return fmt.Sprintf("protocol %q of port %d: use tcp or udp", p.Protocol, p.Container)
		case p.Container == 0:
			return "port 0: give the port inside the container"
		case p.Address != "" && !validAddress(p.Address):
			return fmt.Sprintf("address %.80q of port %d: not an IP address", p.Address, p.Container)
		case p.Host != 0 && p.Host != p.Container && spec.Reach != ReachPublished:
			return fmt.Sprintf(
				"port %d as host port %d: this needs network bridge and reach published", p.Container, p.Host)
		}
	}
	return ""
}

func validAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// alternatives joins the words that are not empty: "a, b or c".
func alternatives(words []string) string {
	named := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	last := len(named) - 1
	if last < 1 {
		return strings.Join(named, "")
	}
	return strings.Join(named[:last], ", ") + " or " + named[last]
}

// OnLoopback returns the loopback address of a port of the host.
func OnLoopback(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
}

// OnHost returns the address of the host on which p is published: loopback, unless p
// names another. CheckNetwork has validated it.
func (p Port) OnHost() netip.Addr {
	if a, err := netip.ParseAddr(p.Address); err == nil {
		return a
	}
	return OnLoopback(0).Addr()
}
