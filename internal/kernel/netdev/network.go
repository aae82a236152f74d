package netdev

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/vishvananda/netlink"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netns"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A Network is a run's own bridge, for the containers of an engine that has no networks, so that
// all such runtimes are compared over the same network. The host has its first address and reaches
// the containers by theirs. It has no way out, no NAT and no firewall rules. Its methods may be
// called concurrently.
type Network struct {
	Run    string
	Driver string // as of a Device

	mu     sync.Mutex
	bridge Device
	index  int                 // of the bridge; 0 if there is none yet
	subnet netip.Prefix        // of the bridge
	taken  map[netip.Addr]bool // by containers
	last   netip.Addr          // given out last; the host's at first
}

// Check reports what a Network cannot provide of a Spec's network.
func Check(spec bench.Spec) error {
	var why string
	switch {
	case spec.Network != "bridge":
	case spec.Reach == bench.ReachPublished:
		why = "network published: without an engine there is neither a proxy nor NAT: use --network bridge"
	case os.Geteuid() != 0:
		why = "network bridge: only root can make a bridge: run tare with sudo"
	case spec.Reach == bench.ReachPeer && bridgeFiltered():
		why = "reach peer: this host's firewall filters packets between containers on a bridge " +
			"(net.bridge.bridge-nf-call-iptables is 1), and tare adds no rules: use network bridge, or an engine that " +
			"adds its own rules"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", bench.ErrUnsupported, why)
}

// Address is where a client reaches a port of a container of this Spec. own is the container's
// address on a Network; it is invalid if the container is on none. On the host's network the port
// is the host's own.
func Address(spec bench.Spec, own netip.Addr, p bench.Port) (netip.AddrPort, error) {
	switch {
	case spec.Network == "host":
		return bench.OnLoopback(p.Container), nil
	case !own.IsValid():
		return netip.AddrPort{}, fmt.Errorf("%w: a container without a network has no address", bench.ErrUnsupported)
	}
	return netip.AddrPortFrom(own, p.Container), nil
}

// bridgeFiltered reports whether packets between ports of a bridge go through the firewall's rules for
// forwarding. With Docker's rules, they would be dropped.
func bridgeFiltered() bool {
	text, err := proc.ReadFile("/proc/sys/net/bridge/bridge-nf-call-iptables", 64)
	return err == nil && len(text) > 0 && text[0] == '1'
}

// Open makes the bridge, unless it exists.
func (n *Network) Open() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.index != 0 {
		return nil
	}
	subnet, err := Subnet()
	if err != nil {
		return err
	}
	n.bridge = Device{n.Run, n.Driver, newName()}
	// A bridge without a hardware address of its own takes the lowest of its interfaces. That changes when a container
	// comes or goes, and for seconds the others send their packets to an address that nobody has.
	own := macAddress(subnet.Addr().Next())
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: n.bridge.Name, HardwareAddr: own}}
	if err := n.bridge.add(link); err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, addressOf(subnet.Addr().Next(), subnet)); err != nil {
		return errors.Join(fmt.Errorf("address of interface %s: %w", n.bridge.Name, err), n.bridge.Remove())
	}
	n.index, n.subnet, n.taken, n.last = link.Index, subnet, map[netip.Addr]bool{}, subnet.Addr().Next()
	return nil
}

// Join gives the network namespace of a process an interface on the bridge, and returns its
// address. The interface disappears with the namespace. After the container's removal, Leave gives
// the address back.
func (n *Network) Join(pid int) (netip.Addr, error) {
	if err := n.Open(); err != nil {
		return netip.Addr{}, err
	}
	address, err := n.take()
	if err != nil {
		return netip.Addr{}, err
	}
	if err := n.connect(pid, address); err != nil {
		n.Leave(address)
		return netip.Addr{}, fmt.Errorf("put process %d on bridge %s: %w", pid, n.bridge.Name, err)
	}
	return address, nil
}

// connect connects a process's network namespace with the bridge.
func (n *Network) connect(pid int, address netip.Addr) error {
	pair := netlink.NewVeth(netlink.LinkAttrs{Name: newName(), MasterIndex: n.index, Flags: net.FlagUp})
	pair.PeerName, pair.PeerNamespace, pair.PeerHardwareAddr = containerInterface, netlink.NsPid(pid), macAddress(address)
	if err := netlink.LinkAdd(pair); err != nil {
		return err
	}
	return netns.In(pid, func() error {
		link, err := netlink.LinkByName(containerInterface)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, addressOf(address, n.subnet)); err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	})
}

// containerInterface is the name of the interface inside a container.
const containerInterface = "eth0"

// macAddress is always the same for an address, so that neighbours' caches stay right for the next
// container with that address.
func macAddress(address netip.Addr) net.HardwareAddr {
	b := address.As4()
	return append(net.HardwareAddr{0x02, 0x42}, b[:]...)
}

func addressOf(address netip.Addr, in netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(in.Bits(), 32)}}
}

// take returns a free address, the one that was given back longest ago. The kernel removes a
// namespace some time after its last process has ended, and until then the namespace still answers
// at its address.
func (n *Network) take() (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.last
	for range 1 << (32 - n.subnet.Bits()) {
		if a = n.nextAddress(a); !n.taken[a] {
			n.taken[a], n.last = true, a
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %v are in use", n.subnet)
}

// nextAddress is the next address for a container, in a circle. The first of the subnet is the host's,
// and the last is the broadcast address.
func (n *Network) nextAddress(a netip.Addr) netip.Addr {
	if a = a.Next(); n.subnet.Contains(a.Next()) {
		return a
	}
	return n.subnet.Addr().Next().Next()
}

// Leave gives an address back. It ignores the zero Addr.
func (n *Network) Leave(address netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.taken, address)
}

// Close removes the bridge.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.index == 0 {
		return nil
	}
	if err := n.bridge.Remove(); err != nil {
		return err
	}
	n.index = 0
	return nil
}
