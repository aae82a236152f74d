package remote

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// How many connections may be unauthenticated at once, in total and from one address. Such a client
// is a stranger: it has not yet proved that it has the token.
const (
	maxUnauthenticated = 64
	maxPerAddress      = 4
)

// How many refusals are logged within a period.
const (
	maxLoggedRefusals = 10
	refusalTime       = time.Minute
)

// An admission is where strangers wait. It limits the resources that they can use, how fast they can try
// tokens, and how much the log grows.
type admission struct {
	log func(string)

	mu        sync.Mutex
	waiting   int
	byAddress map[netip.Addr]int
	since     time.Time // start of the period in which refusals are counted
	logged    int       // refusals in the period
	unlogged  int       // refusals beyond those
	now       func() time.Time
}

func newAdmission(log func(string)) *admission {
	return &admission{log: log, byAddress: map[netip.Addr]int{}, now: time.Now}
}

// enter admits a stranger, unless there are too many. The caller calls leave once.
func (d *admission) enter(from net.Addr) (leave func(), ok bool) {
	a := origin(from)
	d.mu.Lock()
	full := d.waiting >= maxUnauthenticated || d.byAddress[a] >= maxPerAddress
	if !full {
		d.waiting++
		d.byAddress[a]++
	}
	d.mu.Unlock()
	if full {
		d.refused(fmt.Sprintf("%s is refused: too many connections without a token at once", from))
		return nil, false
	}
	return func() { d.leave(a) }, true
}

func (d *admission) leave(a netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting--
	if d.byAddress[a]--; d.byAddress[a] == 0 {
		delete(d.byAddress, a)
	}
}

// origin is the address to which a connection is counted: for IPv6 the /64 prefix, because a host
// with one IPv6 address usually has 2⁶⁴.
func origin(from net.Addr) netip.Addr {
	ap, _ := netip.ParseAddrPort(from.String()) // the zero value if it is not an IP address
	a := ap.Addr().Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	p, _ := a.Prefix(64) // cannot fail: IPv6 has more than 64 bits
	return p.Addr()
}

// refused logs a refusal. If there were many within the period, it logs only their number at the
// period's end.
func (d *admission) refused(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.now(); now.Sub(d.since) > refusalTime {
		if d.unlogged > 0 {
			d.log(fmt.Sprintf("%d more connections were refused", d.unlogged))
		}
		d.since, d.logged, d.unlogged = now, 0, 0
	}
	if d.logged == maxLoggedRefusals {
		d.unlogged++
		return
	}
	d.logged++
	d.log(text)
}
