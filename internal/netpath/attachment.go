package netpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
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
// of the interface, which is no such word.
func (l Link) Network() string {
	switch {
	case l.Kind == "":
		return "none"
	case l.Holder != "":
		return l.Holder
	case l.Kind == "veth" && l.Outer != "":
		return "bridge"
	}
	return l.Kind
}

// Attachment returns how the network namespace of a process is attached: by its
// first interface that has an address of its own and is up.
func Attachment(pid int) (Link, error) {
	inside, err := at(pid)
	if err != nil {
		return Link{}, err
	}
	defer inside.Close()
	link, err := outward(inside)
	if err != nil || link == nil {
		return Link{}, err
	}
	l := Link{Kind: link.Type()}
	switch l.Kind {
	case "veth":
		l.Outer, err = bridgeOf(link)
	case "macvlan":
		l.Outer, err = lower(link)
	case "tuntap":
		l.Kind = "tap"
		l.Holder, err = holder(pid, link.Attrs().Name)
	}
	return l, err
}

// at returns a socket in the network namespace of a process. The thread that
// opens it is in there for as long as that takes.
func at(pid int) (*netlink.Handle, error) {
	name := filepath.Join("/proc", strconv.Itoa(pid), "ns/net")
	if _, err := os.Stat(name); err != nil {
		return nil, err
	}
	ns, err := netns.GetFromPath(name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = ns.Close() }() // nothing is written to it
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, fmt.Errorf("enter %s: %w", name, err)
	}
	return h, nil
}

// outward returns the interface by which packets come; nil where there is none.
// What a kernel puts into every namespace, such as tunl0, has no address.
func outward(h *netlink.Handle) (netlink.Link, error) {
	links, err := h.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, link := range links {
		if link.Attrs().Name == "lo" {
			continue
		}
		addresses, err := h.AddrList(link, netlink.FAMILY_V4)
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", link.Attrs().Name, err)
		}
		if len(addresses) > 0 {
			return link, nil
		}
	}
	return nil, nil
}

// bridgeOf returns the bridge in this namespace that the other end of a veth is
// a port of; empty where the other end is not here, or in no bridge.
func bridgeOf(inner netlink.Link) (string, error) {
	outer, err := linkByIndex(inner.Attrs().ParentIndex)
	if err != nil || outer == nil {
		return "", err
	}
	// The number is of another namespace's where the other end is not in this one.
	if outer.Type() != "veth" || outer.Attrs().ParentIndex != inner.Attrs().Index || outer.Attrs().MasterIndex == 0 {
		return "", nil
	}
	return named(outer.Attrs().MasterIndex)
}

// lower returns what a macvlan lies on.
func lower(inner netlink.Link) (string, error) { return named(inner.Attrs().ParentIndex) }

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
