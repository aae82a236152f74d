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

// A Network is a bridge of a run's own, for the containers of an engine that has
// no networks: with one, runtimes are compared over the same thing. The host has
// its first address and reaches the containers by theirs. There is no way out, no
// NAT and no rule of a firewall. Its methods may be called concurrently.
type Network struct {
	Run    string
	Driver string // as of a Device

	mu     sync.Mutex
	bridge Device
	index  int                 // of the bridge; 0 where there is none yet
	subnet netip.Prefix        // of the bridge
	taken  map[netip.Addr]bool // by containers
	last   netip.Addr          // that was given out; the host's at first
}

// Check reports what of a Spec's bridge cannot be had where no engine makes it.
func Check(spec bench.Spec) error {
	var why string
	switch {
	case spec.Network != "bridge":
	case spec.Reach == bench.ReachPublished:
		why = "network published: a bare runtime has neither a proxy nor NAT: use --network bridge"
	case os.Geteuid() != 0:
		why = "network bridge: to make one takes root: run tare with sudo"
	case spec.Reach == bench.ReachPeer && filtered():
		why = "reach peer: this host's firewall filters what containers on a bridge say to one another (net.bridge.bridge-nf-call-iptables is 1), and tare adds no rules to it: use network bridge, or an engine that does"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", bench.ErrUnsupported, why)
}

// Address is where a client reaches a port of a container of this Spec, which has
// the address own on a Network or, not valid, none. On the host's network the port
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

// filtered reports whether packets from port to port of a bridge pass the rules
// for what is forwarded, which drop them where Docker has been.
func filtered() bool {
	text, err := proc.ReadFile("/proc/sys/net/bridge/bridge-nf-call-iptables", 64)
	return err == nil && len(text) > 0 && text[0] == '1'
}

// Open makes the bridge, unless it was made.
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
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: n.bridge.Name}}
	if err := n.bridge.add(link); err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, addressOf(subnet.Addr().Next(), subnet)); err != nil {
		return errors.Join(fmt.Errorf("address of interface %s: %w", n.bridge.Name, err), n.bridge.Remove())
	}
	n.index, n.subnet, n.taken, n.last = link.Index, subnet, map[netip.Addr]bool{}, subnet.Addr().Next()
	return nil
}

// Join gives the network namespace of a process an interface on the bridge,
// which goes when the namespace does, and returns its address. Leave gives that
// back once the container has been removed.
func (n *Network) Join(pid int) (netip.Addr, error) {
	if err := n.Open(); err != nil {
		return netip.Addr{}, err
	}
	address, err := n.take()
	if err != nil {
		return netip.Addr{}, err
	}
	if err := n.cable(pid, address); err != nil {
		n.Leave(address)
		return netip.Addr{}, fmt.Errorf("put process %d on bridge %s: %w", pid, n.bridge.Name, err)
	}
	return address, nil
}

// cable connects a process's network namespace with the bridge.
func (n *Network) cable(pid int, address netip.Addr) error {
	pair := netlink.NewVeth(netlink.LinkAttrs{Name: newName(), MasterIndex: n.index, Flags: net.FlagUp})
	pair.PeerName, pair.PeerNamespace, pair.PeerHardwareAddr = inner, netlink.NsPid(pid), hardware(address)
	if err := netlink.LinkAdd(pair); err != nil {
		return err
	}
	return netns.In(pid, func() error {
		link, err := netlink.LinkByName(inner)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, addressOf(address, n.subnet)); err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	})
}

// inner is what a container calls its interface.
const inner = "eth0"

// hardware is the same for the same address, so that what others remember of it
// is right for the next container that gets it.
func hardware(address netip.Addr) net.HardwareAddr {
	b := address.As4()
	return append(net.HardwareAddr{0x02, 0x42}, b[:]...)
}

func addressOf(address netip.Addr, in netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(in.Bits(), 32)}}
}

// take returns an address that no container has, the one that was given back
// longest ago: the kernel takes a namespace down some time after its last process
// has ended, and until then it answers.
func (n *Network) take() (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.last
	for range 1 << (32 - n.subnet.Bits()) {
		if a = n.after(a); !n.taken[a] {
			n.taken[a], n.last = true, a
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address of %v is free", n.subnet)
}

// after is the container's address behind another one, in a circle. The first of
// the subnet is the host's, and the last is that of all.
func (n *Network) after(a netip.Addr) netip.Addr {
	if a = a.Next(); n.subnet.Contains(a.Next()) {
		return a
	}
	return n.subnet.Addr().Next().Next()
}

// Leave gives an address back; the zero Addr is none.
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
