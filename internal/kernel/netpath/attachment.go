package netpath

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/netns"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// A Link is how a network namespace is connected to the outside.
type Link struct {
	Kind    string // of its interface: "veth", "macvlan", "tuntap" … ; empty if it has only loopback
	Outer   string // the host's interface below it: "bridge docker0", "eth0"; empty if there is none
	Program string // the program that holds a TAP device, such as "slirp4netns"; empty if there is none
}

// Words are the parts that a packet from outside passes, the outermost first.
func (l Link) Words() []string {
	switch {
	case l.Kind == "":
		return []string{Unknown}
	case l.Program != "":
		return []string{l.Program, l.Kind}
	case l.Outer == "":
		return []string{l.Kind}
	}
	return []string{l.Outer, l.Kind}
}

// Network is the link's value for Spec.Network: "none" without an interface, "bridge", "macvlan",
// "slirp4netns", "pasta", or otherwise the kind of the interface, which is not a value of
// Spec.Network. It is empty if the outside cannot be read from here.
func (l Link) Network() string {
	switch {
	case l.Kind == "":
		return "none"
	case l.Kind == "tap" && l.Program != Unknown:
		return l.Program
	case l.Kind == "tap", l.Kind == "veth" && l.Outer == "":
		return ""
	case l.Kind == "veth":
		kind, _, _ := strings.Cut(l.Outer, " ")
		return kind
	}
	return l.Kind
}

// Network is the network of a process as a value of Spec.Network; "host" is this process's network.
// If the kernel does not tell, it is word.
func Network(pid int, word string) (string, error) {
	same, err := readback.SameNamespace("net", pid, readback.Self)
	if err == nil && same {
		return "host", nil
	}
	var l Link
	if err == nil {
		l, err = Attachment(pid)
	}
	if isPermission(err) {
		return word, nil
	}
	if n := l.Network(); n != "" {
		word = n
	}
	return word, err
}

// Attachment returns how the network namespace of a process is connected, by the interface that
// defaultLink finds.
func Attachment(pid int) (Link, error) {
	inside, err := openNetlink(pid)
	if err != nil {
		return Link{}, err
	}
	defer inside.Close()
	link, err := defaultLink(inside)
	if err != nil || link == nil {
		return Link{}, err
	}
	l := Link{Kind: link.Type()}
	here := isInHostNamespace(inside, link)
	switch {
	case l.Kind == "veth" && here:
		l.Outer, err = bridgeOf(link)
	case l.Kind == "macvlan" && here && !isBridgeMode(link):
		l.Outer, err = linkName(link.Attrs().ParentIndex)
	case l.Kind == "tuntap":
		l.Kind = "tap"
		l.Program, err = tapHolder(pid, link.Attrs().Name)
	}
	return l, err
}

// isBridgeMode reports whether a macvlan itself passes packets to the other macvlans on its interface,
// without using the interface.
func isBridgeMode(link netlink.Link) bool {
	m, ok := link.(*netlink.Macvlan)
	return ok && m.Mode == netlink.MACVLAN_MODE_BRIDGE
}

// isInHostNamespace reports whether the parent or the other end of an interface in another namespace is in
// this namespace. Only then is its index valid here.
func isInHostNamespace(inside *netlink.Handle, link netlink.Link) bool {
	here, err := inside.GetNetNsIdByPid(os.Getpid())
	return err == nil && here >= 0 && here == link.Attrs().NetNsID
}

// openNetlink returns a socket in the network namespace of a process.
func openNetlink(pid int) (h *netlink.Handle, err error) {
	return h, netns.In(pid, func() error {
		h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
}

// defaultLink returns the interface by which packets come; nil if there is none. It is the first one
// with an address, otherwise one without an address that is up: gVisor takes the address away for
// its own network stack. Interfaces that the kernel puts into every namespace, such as tunl0, have
// no address and are down.
func defaultLink(h *netlink.Handle) (netlink.Link, error) {
	links, err := netdev.ReadConsistent(h.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var up netlink.Link
	for _, link := range links {
		if link.Attrs().Name == "lo" {
			continue
		}
		addresses, err := netdev.ReadConsistent(func() ([]netlink.Addr, error) { return h.AddrList(link, netlink.FAMILY_V4) })
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", link.Attrs().Name, err)
		}
		if len(addresses) > 0 {
			return link, nil
		}
		if up == nil && link.Attrs().Flags&net.FlagUp != 0 {
			up = link
		}
	}
	return up, nil
}

// bridgeOf returns the bridge that has the other end of a veth, in this namespace, as a port; empty
// if there is none.
func bridgeOf(inner netlink.Link) (string, error) {
	outer, err := linkByIndex(inner.Attrs().ParentIndex)
	if err != nil || outer == nil {
		return "", err
	}
	if outer.Attrs().MasterIndex == 0 {
		return "", nil
	}
	return linkName(outer.Attrs().MasterIndex)
}

func linkName(index int) (string, error) {
	link, err := linkByIndex(index)
	if err != nil || link == nil {
		return "", err
	}
	return describe(link), nil
}

// linkByIndex returns an interface of this namespace; nil if there is none.
func linkByIndex(index int) (netlink.Link, error) {
	link, err := netlink.LinkByIndex(index)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil, nil
	}
	return link, err
}

// tapHolder returns the name of the program that holds the TAP device of a process's network
// namespace: it has the device open, and its arguments name the namespace.
func tapHolder(pid int, device string) (string, error) {
	ns, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
	if err != nil {
		return "", err
	}
	found := Unknown
	err = eachProcess(func(other int) bool {
		if !holdsTap(other, device) || !nameIn(other, ns) {
			return true
		}
		found = nameOf(other)
		return false
	})
	return found, err
}
