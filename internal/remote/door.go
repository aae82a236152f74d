package remote

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// How many strangers, who have not shown yet that they have the token, may stand
// at the door, and how many of one address.
const (
	mostStrangers = 64
	mostOfAddress = 4
)

// How many refusals are told about in a while.
const (
	toldRefusals = 10
	refusalTime  = time.Minute
)

// A door is where strangers wait. It bounds what they can take of the machine,
// how fast tokens can be tried, and how much the log grows by it.
type door struct {
	log func(string)

	mu      sync.Mutex
	inside  int
	of      map[netip.Addr]int
	since   time.Time // when told and untold began to count
	told    int
	untold  int
	present func() time.Time
}

func newDoor(log func(string)) *door {
	return &door{log: log, of: map[netip.Addr]int{}, present: time.Now}
}

// enter lets one in, unless there are too many. Who is in calls leave, once.
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
		d.refused(fmt.Sprintf("%s is refused: too many connections at once that have not shown a token", from))
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

// origin is whom a connection is counted for: one who has an IPv6 address has
// some 2⁶⁴.
func origin(from net.Addr) netip.Addr {
	ap, _ := netip.ParseAddrPort(from.String()) // the zero value where it is no network's
	a := ap.Addr().Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	p, _ := a.Prefix(64) // 64 bits are always there
	return p.Addr()
}

// refused tells of a refusal, unless there were many just now: then only their
// number, when the time is over.
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
