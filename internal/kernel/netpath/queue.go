package netpath

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// A Queue is what the queues of packets before interfaces did, added up.
type Queue struct {
	Drops    float64 // packets that were dropped
	HeldBack float64 // times that a packet had to wait for a limit of rate (the kernel's "overlimits")
}

// Queues returns what the queues before the interfaces of a process's network
// namespace did since they were made and, of those that are one end of a veth,
// the queue before the other end, if that is in this namespace: what the process
// sends waits in the former, what it receives in the latter.
func Queues(pid int) (Queue, error) {
	inside, err := at(pid)
	if err != nil {
		return Queue{}, err
	}
	defer inside.Close()
	var sum Queue
	if err := sum.add(inside, nil); err != nil {
		return Queue{}, err
	}
	links, err := netdev.Whole(inside.LinkList)
	if err != nil {
		return Queue{}, fmt.Errorf("list interfaces: %w", err)
	}
	for _, inner := range links {
		if inner.Type() != "veth" || !leadsHere(inside, inner) {
			continue
		}
		if err := sum.addOuter(inner); err != nil {
			return Queue{}, err
		}
	}
	return sum, nil
}

// addOuter adds the queue before the other end of a veth, which is in this
// namespace.
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

// add adds the queues before an interface, or every one. A queue that others
// are part of counts for them too.
func (q *Queue) add(h *netlink.Handle, of netlink.Link) error {
	queues, err := netdev.Whole(func() ([]netlink.Qdisc, error) { return h.QdiscList(of) })
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
