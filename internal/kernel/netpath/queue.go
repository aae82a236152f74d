package netpath

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// A Queue has the counts of the packet queues of interfaces, added up.
type Queue struct {
	Drops    float64 // packets that were dropped
	HeldBack float64 // times that a rate limit delayed a packet (the kernel's "overlimits")
}

// Queues returns the counts, since they were made, of the queues of the interfaces in a process's
// network namespace. For a veth, it adds the queue of the other end, if that is in this namespace.
// Packets that the process sends wait in the former, packets that it receives in the latter.
func Queues(pid int) (Queue, error) {
	var sum Queue
	err := eachQueue(pid, func(q netlink.Qdisc) {
		a := q.Attrs()
		if a.Parent != netlink.HANDLE_ROOT || a.Statistics == nil || a.Statistics.Queue == nil {
			return // a queue that contains others already includes their counts
		}
		sum.Drops += float64(a.Statistics.Queue.Drops)
		sum.HeldBack += float64(a.Statistics.Queue.Overlimits)
	})
	if err != nil {
		return Queue{}, err
	}
	return sum, nil
}

// eachQueue calls do for the queues of the interfaces in a process's network namespace, and for those
// of the other ends of its veths that are in this namespace.
func eachQueue(pid int, do func(netlink.Qdisc)) error {
	inside, err := openNetlink(pid)
	if err != nil {
		return err
	}
	defer inside.Close()
	if err := queuesOf(inside, nil, do); err != nil {
		return err
	}
	links, err := netdev.ReadConsistent(inside.LinkList)
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, inner := range links {
		if inner.Type() != "veth" || !isInHostNamespace(inside, inner) {
			continue
		}
		if err := outerQueues(inner, do); err != nil {
			return err
		}
	}
	return nil
}

// outerQueues calls do for the queues of the other end of a veth, which is in this namespace.
func outerQueues(inner netlink.Link, do func(netlink.Qdisc)) error {
	outer, err := linkByIndex(inner.Attrs().ParentIndex)
	if err != nil || outer == nil {
		return err
	}
	here, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer here.Close()
	return queuesOf(here, outer, do)
}

// queuesOf calls do for the queues of an interface, or of all.
func queuesOf(h *netlink.Handle, of netlink.Link, do func(netlink.Qdisc)) error {
	queues, err := netdev.ReadConsistent(func() ([]netlink.Qdisc, error) { return h.QdiscList(of) })
	if err != nil {
		return fmt.Errorf("list queues: %w", err)
	}
	for _, one := range queues {
		do(one)
	}
	return nil
}

// RateLimit returns the kind of a queue that lets packets through at a rate, such as "tbf", of an
// interface in a process's network namespace, or of the other end of its veth. It is empty if there is
// none, and for a process in this network namespace, whose queues are nobody's own.
func RateLimit(pid int) (string, error) {
	same, err := readback.SameNamespace("net", pid, readback.Self)
	if err != nil || same {
		return "", err
	}
	kind := ""
	err = eachQueue(pid, func(q netlink.Qdisc) {
		if slices.Contains(rateLimits(), q.Type()) {
			kind = q.Type()
		}
	})
	return kind, err
}

// rateLimits are the kinds of queues that give packets out at a rate, or late.
func rateLimits() []string { return []string{"tbf", "htb", "hfsc", "cbq", "netem", "etf", "taprio"} }
