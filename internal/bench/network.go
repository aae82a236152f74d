package bench

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The ways in which a client reaches a port of a container: Spec.Reach. The
// zero value is by the container's own address.
const (
	ReachPublished = "published" // by a port of the host: see Port
	ReachPeer      = "peer"      // from a container beside it, by its own address
)

// CheckNetwork reports what of a Spec's Network, Reach and Ports the engine that
// has the named networks cannot do, or what nobody can; the error wraps
// ErrUnsupported. The Spec's empty network stands for none unless it is among
// the engine's.
func CheckNetwork(spec Spec, networks ...string) error {
	network := spec.Network
	if network == "" && !slices.Contains(networks, "") {
		network = "none"
	}
	own := network != "" && network != "none" && network != "host"
	var why string
	switch {
	case spec.Network != "" && !slices.Contains(networks, spec.Network):
		why = fmt.Sprintf("network %q: use %s", spec.Network, choice(networks))
	case !slices.Contains([]string{"", ReachPublished, ReachPeer}, spec.Reach):
		why = fmt.Sprintf("reach %q: there is %s, %s, or none for the container's own address", spec.Reach, ReachPublished, ReachPeer)
	case spec.Reach != "" && !own:
		why = fmt.Sprintf("reach %s needs a network of the container's own, such as bridge", spec.Reach)
	case len(spec.Ports) > 0 && network == "none":
		why = "ports: a container without a network cannot be reached: use network host or bridge"
	case spec.Reach == ReachPublished && network == "macvlan":
		why = "reach published: a macvlan has no ports of the host: use reach peer"
	case len(spec.Ports) > 0 && spec.Reach != ReachPeer && network == "macvlan":
		why = "network macvlan: the host cannot reach it by the interface that it lies on: use reach peer"
	case len(spec.Ports) > 0 && spec.Reach != ReachPublished && userMode(network):
		why = fmt.Sprintf("network %s: it has no address that others reach: use reach published", network)
	default:
		why = checkPorts(spec)
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnsupported, why)
}

// userMode reports whether the packets of a network pass a program of the user.
func userMode(network string) bool { return network == "slirp4netns" || network == "pasta" }

func checkPorts(spec Spec) string {
	for _, p := range spec.Ports {
		switch {
		case p.Protocol != "tcp" && p.Protocol != "udp":
			return fmt.Sprintf("protocol %q of port %d: there is tcp and udp", p.Protocol, p.Container)
		case p.Container == 0:
			return "port 0: name the port inside"
		case p.Address != "" && !validAddress(p.Address):
			return fmt.Sprintf("address %.80q of port %d: not an IP address", p.Address, p.Container)
		case p.Host != 0 && p.Host != p.Container && spec.Reach != ReachPublished:
			return fmt.Sprintf("port %d as %d of the host: that needs network bridge and reach published", p.Container, p.Host)
		}
	}
	return ""
}

func validAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// choice is "a, b or c" of those that have a name.
func choice(words []string) string {
	named := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	last := len(named) - 1
	if last < 1 {
		return strings.Join(named, "")
	}
	return strings.Join(named[:last], ", ") + " or " + named[last]
}

// OnLoopback is the address of a port of the host that is reached on loopback.
func OnLoopback(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
}

// OnHost is the address of the host on which p is published: loopback, unless p
// says otherwise. CheckNetwork has held it to be one.
func (p Port) OnHost() netip.Addr {
	if a, err := netip.ParseAddr(p.Address); err == nil {
		return a
	}
	return OnLoopback(0).Addr()
}
