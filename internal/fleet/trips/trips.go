// Package trips measures round trips between the nodes of a fleet, from inside a pod.
//
// Every pod answers datagrams that begin with the fleet's tag, for as long as it runs. In the slots in which it is the
// client, it sends one request after the other to its peer and takes the median of the round trips. The answers carry
// the server's wall clock, so that each pair also learns how far its clocks are apart.
package trips

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// A Peer is where a node listens.
type Peer struct {
	Pod  netip.AddrPort `json:"pod"`
	Host netip.AddrPort `json:"host"` // not valid = it is not reached by the host network
}

// A Session is the part of one node in the meetings of a fleet.
type Session struct {
	Self    int                 // this node
	Peers   []Peer              // of each node; one whose Pod is not valid has not come
	Token   []byte              // see Listen
	Seed    uint64              // decides which network is measured first
	Slots   [][][]pairs.Meeting // see pairs.Slots
	Slot    time.Duration       // from the beginning of a slot to the next; see MinSlot
	HostPID int                 // see Listen: whose network is that of the host; 0 = only the pod's is measured
}

// MinSlot is the length of a slot: two networks, each with its warm-up, and clocks that are not quite the same. The
// meetings of a node whose clock is off by a second are between those of the others; what is more than two seconds, the
// start signal allows for.
const MinSlot = 2 * time.Second

// Measure goes through the slots of a round (from 0) that begins at begin by the wall clock, and measures in those in
// which this node is the client. It returns when the slots are over, or when ctx is: with what there is until then.
// A slot that was half over before it is reached is missed, and said so.
func (s *Session) Measure(ctx context.Context, round int, begin time.Time) []pairs.Trip {
	var all []pairs.Trip
	if round < 0 || round >= len(s.Slots) {
		return all
	}
	begin = begin.Round(0) // by the wall clock, which is what nodes have in common
	for slot, meetings := range s.Slots[round] {
		due := begin.Add(time.Duration(slot) * s.Slot)
		for _, m := range meetings {
			if m.Client == s.Self && m.Server >= 0 && m.Server < len(s.Peers) {
				all = append(all, s.meet(ctx, pairs.Trip{Meeting: m, Round: round, Slot: slot}, due)...)
			}
		}
	}
	sleepUntil(ctx, begin.Add(time.Duration(len(s.Slots[round]))*s.Slot))
	return all
}

// meet measures over each network that both ends have, in random order. It begins a quarter into the slot, when the
// meetings of the last one are over by every clock.
func (s *Session) meet(ctx context.Context, m pairs.Trip, due time.Time) (all []pairs.Trip) {
	sleepUntil(ctx, due.Add(s.Slot/4))
	late := time.Since(due) > s.Slot/2
	networks := s.networks(s.Peers[m.Server])
	r := rand.New(rand.NewPCG(s.Seed, uint64(m.Round)<<40|uint64(m.Slot)<<24|uint64(m.Client)))
	r.Shuffle(len(networks), func(i, j int) { networks[i], networks[j] = networks[j], networks[i] })
	for _, n := range networks {
		m.Network = n.name
		one, err := m, error(nil)
		switch {
		case late:
			err = fmt.Errorf("the client came to the slot %v after it began", time.Since(due).Round(time.Millisecond))
		case !n.at.IsValid():
			err = errors.New("no pod of the server takes part")
		default:
			err = measure(ctx, &one, n.at, n.pid, s.Token)
		}
		if ctx.Err() != nil { // it says nothing of the other node
			return all
		}
		if err != nil {
			one.Lost = err.Error()
		}
		all = append(all, one)
	}
	return all
}

// A network is one way to a peer.
type network struct {
	name string
	at   netip.AddrPort
	pid  int // see Listen
}

func (s *Session) networks(p Peer) []network {
	networks := []network{{pairs.Pod, p.Pod, 0}}
	if s.HostPID != 0 && p.Host.IsValid() {
		networks = append(networks, network{pairs.Host, p.Host, s.HostPID})
	}
	return networks
}

// sleepUntil waits until a time by the wall clock, which may be set meanwhile.
func sleepUntil(ctx context.Context, due time.Time) {
	for {
		left := time.Until(due)
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(left, time.Second)):
		}
	}
}
