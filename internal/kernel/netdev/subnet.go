package netdev

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Subnet returns 1022 private addresses, as many as a bridge has ports, that no
// route or interface of this namespace has: the first free 22 bits of 10.213.0.0/16.
func Subnet() (netip.Prefix, error) {
	taken, err := usedPrefixes()
	if err != nil {
		return netip.Prefix{}, err
	}
	return free(taken)
}

func free(taken []netip.Prefix) (netip.Prefix, error) {
next:
	for i := range 64 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte(4 * i), 0}), 22)
		for _, t := range taken {
			if t.Overlaps(p) {
				continue next
			}
		}
		return p, nil
	}
	return netip.Prefix{}, errors.New("no private addresses are free: this host has routes or addresses in all of " +
		"10.213.0.0/16")
}

// usedPrefixes lists the networks of all routes, except the default one, and of all addresses.
func usedPrefixes() ([]netip.Prefix, error) {
	var all []netip.Prefix
	routes, err := ReadConsistent(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{}, netlink.RT_FILTER_TABLE) // of every table
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		address, ok := netip.AddrFromSlice(r.Dst.IP)
		if bits, _ := r.Dst.Mask.Size(); ok && bits > 0 {
			all = append(all, netip.PrefixFrom(address.Unmap(), bits))
		}
	}
	return all, nil
}
