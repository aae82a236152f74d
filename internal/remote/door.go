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
	mostStrangers = 64
	mostOfAddress = 4
)

// How many refusals are logged within a period.
const (
	toldRefusals = 10
	refusalTime  = time.Minute
)

// A door is where strangers wait. It limits the resources that they can use, how fast they can try
// tokens, and how much the log grows.
type door struct {
	log func(string)

	mu      sync.Mutex
	inside  int
	of      map[netip.Addr]int
	since   time.Time // start of the period of told and untold
	told    int
	untold  int
	present func() time.Time
}

func newDoor(log func(string)) *door {
	return &door{log: log, of: map[netip.Addr]int{}, present: time.Now}
}

// enter admits a stranger, unless there are too many. The caller calls leave once.
func (d *door) enter(from net.Addr) (leave func(), ok bool) {
	a := origin(from)
	d.mu.Lock()
	full := d.inside >= mostStrangers || d.of[a] >= mostOfAddress
	if !full {
		d.inside++
		d.of[a]++
	}
	d.mu.Unlock()
	if full {
		d.refused(fmt.Sprintf("%s is refused: too many connections without a token at once", from))
		return nil, false
	}
	return func() { d.leave(a) }, true
}

func (d *door) leave(a netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	if d.of[a]--; d.of[a] == 0 {
		delete(d.of, a)
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
func (d *door) refused(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.present(); now.Sub(d.since) > refusalTime {
		if d.untold > 0 {
			d.log(fmt.Sprintf("%d more connections were refused", d.untold))
		}
		d.since, d.told, d.untold = now, 0, 0
	}
	if d.told == toldRefusals {
		d.untold++
		return
	}
	d.told++
	d.log(text)
}
