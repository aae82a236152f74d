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

// A Link is how a network namespace is attached to what is outside of it.
type Link struct {
	Kind   string // of its interface: "veth", "macvlan", "tuntap" … ; empty where there is none but loopback
	Outer  string // what that lies on, of the host's: "bridge docker0", "eth0"; empty where there is none
	Holder string // the program that holds a TAP device, such as "slirp4netns"; empty where there is none
}

// Words are what a packet from outside passes, the outermost first.
func (l Link) Words() []string {
	switch {
	case l.Kind == "":
		return []string{Unknown}
	case l.Holder != "":
		return []string{l.Holder, l.Kind}
	case l.Outer == "":
		return []string{l.Kind}
	}
	return []string{l.Outer, l.Kind}
}

// Network says what the link is in the words of Spec.Network: "none" where there
// is no interface, "bridge", "macvlan", "slirp4netns", "pasta", or else the kind
// of the interface, which is no such word. It is empty where what is outside
// cannot be seen from here.
func (l Link) Network() string {
	switch {
	case l.Kind == "":
		return "none"
	case l.Kind == "tap" && l.Holder != Unknown:
		return l.Holder
	case l.Kind == "tap", l.Kind == "veth" && l.Outer == "":
		return ""
	case l.Kind == "veth":
		kind, _, _ := strings.Cut(l.Outer, " ")
		return kind
	}
	return l.Kind
}

// Network is the network of a process in the words of Spec.Network, "host" being
// this process's. Word stands where the kernel does not tell.
func Network(pid int, word string) (string, error) {
	same, err := readback.SameNamespace("net", pid, readback.Self)
	if err == nil && same {
		return "host", nil
	}
	var l Link
	if err == nil {
		l, err = Attachment(pid)
	}
	if unreadable(err) {
		return word, nil
	}
	if n := l.Network(); n != "" {
		word = n
	}
	return word, err
}

// Attachment returns how the network namespace of a process is attached: by the
// interface that wayOut finds.
func Attachment(pid int) (Link, error) {
	inside, err := at(pid)
	if err != nil {
		return Link{}, err
	}
	defer inside.Close()
	link, err := wayOut(inside)
	if err != nil || link == nil {
		return Link{}, err
	}
	l := Link{Kind: link.Type()}
	here := leadsHere(inside, link)
	switch {
	case l.Kind == "veth" && here:
		l.Outer, err = bridgeOf(link)
	case l.Kind == "macvlan" && here && !among(link):
		l.Outer, err = named(link.Attrs().ParentIndex)
	case l.Kind == "tuntap":
		l.Kind = "tap"
		l.Holder, err = holder(pid, link.Attrs().Name)
	}
	return l, err
}

// among reports whether a macvlan hands packets to the others on its interface by
// itself: they do not pass the interface.
func among(link netlink.Link) bool {
	m, ok := link.(*netlink.Macvlan)
	return ok && m.Mode == netlink.MACVLAN_MODE_BRIDGE
}

// leadsHere reports whether what an interface of another namespace lies on, or
// is the other end of, is in this one: only then its number is one of here.
func leadsHere(inside *netlink.Handle, link netlink.Link) bool {
	here, err := inside.GetNetNsIdByPid(os.Getpid())
	return err == nil && here >= 0 && here == link.Attrs().NetNsID
}

// at returns a socket in the network namespace of a process.
func at(pid int) (h *netlink.Handle, err error) {
	return h, netns.In(pid, func() error {
		h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
}

// wayOut returns the interface by which packets come; nil where there is none. It is
// the first with an address; else one without that is up, as gVisor leaves it, which
// takes the address for its own network stack. What a kernel puts into every
// namespace, such as tunl0, has no address and is down.
func wayOut(h *netlink.Handle) (netlink.Link, error) {
	links, err := netdev.Whole(h.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var up netlink.Link
	for _, link := range links {
		if link.Attrs().Name == "lo" {
			continue
		}
		addresses, err := netdev.Whole(func() ([]netlink.Addr, error) { return h.AddrList(link, netlink.FAMILY_V4) })
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

// bridgeOf returns the bridge that the other end of a veth, which is in this
// namespace, is a port of; empty where it is in none.
func bridgeOf(inner netlink.Link) (string, error) {
	outer, err := linkByIndex(inner.Attrs().ParentIndex)
	if err != nil || outer == nil {
		return "", err
	}
	if outer.Attrs().MasterIndex == 0 {
		return "", nil
	}
	return named(outer.Attrs().MasterIndex)
}

func named(index int) (string, error) {
	link, err := linkByIndex(index)
	if err != nil || link == nil {
		return "", err
	}
	return describe(link), nil
}

// linkByIndex returns an interface of this namespace; nil where there is none.
func linkByIndex(index int) (netlink.Link, error) {
	link, err := netlink.LinkByIndex(index)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil, nil
	}
	return link, err
}

// holder returns the name of the program that holds the TAP device of a process's
// network namespace: one that has it open, and whose arguments name the namespace.
func holder(pid int, device string) (string, error) {
	ns, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
	if err != nil {
		return "", err
	}
	found := Unknown
	err = eachProcess(func(other int) bool {
		if !holds(other, device) || !nameIn(other, ns) {
			return true
		}
		found = nameOf(other)
		return false
	})
	return found, err
}
