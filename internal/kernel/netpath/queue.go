package netpath

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/tare-bench/tare/internal/kernel/netdev"
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
	inside, err := openNetlink(pid)
	if err != nil {
		return Queue{}, err
	}
	defer inside.Close()
	var sum Queue
	if err := sum.add(inside, nil); err != nil {
		return Queue{}, err
	}
	links, err := netdev.ReadConsistent(inside.LinkList)
	if err != nil {
		return Queue{}, fmt.Errorf("list interfaces: %w", err)
	}
	for _, inner := range links {
		if inner.Type() != "veth" || !isInHostNamespace(inside, inner) {
			continue
		}
		if err := sum.addOuter(inner); err != nil {
			return Queue{}, err
		}
	}
	return sum, nil
}

// addOuter adds the queue of the other end of a veth, which is in this namespace.
func (q *Queue) addOuter(inner netlink.Link) error {
	outer, err := linkByIndex(inner.Attrs().ParentIndex)
	if err != nil || outer == nil {
		return err
	}
	here, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer here.Close()
	return q.add(here, outer)
}

// add adds the queues of an interface, or all. A queue that contains others already includes their
// counts.
func (q *Queue) add(h *netlink.Handle, of netlink.Link) error {
	queues, err := netdev.ReadConsistent(func() ([]netlink.Qdisc, error) { return h.QdiscList(of) })
	if err != nil {
		return fmt.Errorf("list queues: %w", err)
	}
	for _, one := range queues {
		a := one.Attrs()
		if a.Parent != netlink.HANDLE_ROOT || a.Statistics == nil || a.Statistics.Queue == nil {
			continue
		}
		q.Drops += float64(a.Statistics.Queue.Drops)
		q.HeldBack += float64(a.Statistics.Queue.Overlimits)
	}
	return nil
}
