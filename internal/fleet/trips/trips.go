// Package trips measures round trips between the nodes of a fleet, and on request throughput, from inside a pod.
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
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// A Session is the part of one pod in the meetings of a fleet. A node has a pod for each network.
type Session struct {
	Self  int              // this node
	Peers []netip.AddrPort // where each node listens in this network; one that is not valid has not come
	Token []byte           // see Listen
	Seed  uint64           // decides whose turn is first in a slot
	// Network is what this pod measures, and Networks all that are measured, by other pods of the node: in the same slots,
	// one after the other.
	Network  string
	Networks []string
	Slots    [][][]pairs.Meeting // see pairs.Slots
	Waves    [][][]pairs.Meeting // see pairs.Waves; empty = no throughput is measured
	Slot     time.Duration       // from the beginning of a slot or wave to the next; see MinSlot
}

// MinSlot is the length of a slot: two networks, each with its warm-up, and clocks that are not quite the same. The
// meetings of a node whose clock is off by a second are between those of the others; what is more than two seconds, the
// start signal allows for.
const MinSlot = 2 * time.Second

// Measure goes through the slots of a round (from 0) that begins at begin by the wall clock, and then through its waves,
// and measures in those in which this node is the client. It returns when they are over, or when ctx is: with what there
// is until then. A meeting whose turn is over before it is reached is missed, and said so.
func (s *Session) Measure(ctx context.Context, round int, begin time.Time) []pairs.Trip {
	begin = begin.Round(0) // by the wall clock, which is what nodes have in common
	all, end := s.through(ctx, s.Slots, round, begin, false)
	bulk, end := s.through(ctx, s.Waves, round, end, true)
	sleepUntil(ctx, end)
	return append(all, bulk...)
}

// through measures in the slots of a round, and returns when they end.
func (s *Session) through(ctx context.Context, rounds [][][]pairs.Meeting, round int, begin time.Time, bulk bool) (
	all []pairs.Trip, end time.Time,
) {
	if round < 0 || round >= len(rounds) {
		return nil, begin
	}
	for slot, meetings := range rounds[round] {
		due := begin.Add(time.Duration(slot) * s.Slot)
		for _, m := range meetings {
			if m.Client != s.Self || m.Server < 0 || m.Server >= len(s.Peers) {
				continue
			}
			trip := pairs.Trip{Meeting: m, Round: round, Slot: slot, Network: s.Network, Bulk: bulk}
			if s.meet(ctx, &trip, due) {
				all = append(all, trip)
			}
		}
	}
	return all, begin.Add(time.Duration(len(rounds[round])) * s.Slot)
}

// meet measures one meeting. Turns begin a quarter into the slot, when the meetings of the last one are over by every
// clock, and each has a quarter. ok is false if it was stopped: that says nothing of the other node.
func (s *Session) meet(ctx context.Context, trip *pairs.Trip, due time.Time) (ok bool) {
	begin := due.Add(s.Slot / 4 * time.Duration(1+s.turn(trip)))
	sleepUntil(ctx, begin)
	var err error
	switch at := s.Peers[trip.Server]; {
	case time.Since(begin) > s.Slot/4:
		err = fmt.Errorf("the client came to the slot %v after it began", time.Since(due).Round(time.Millisecond))
	case !at.IsValid():
		err = errors.New("no pod of the server takes part")
	case trip.Bulk:
		turn, cancel := context.WithDeadline(ctx, begin.Add(s.Slot/4))
		err = s.measureBulk(turn, &trip.Seconds, at)
		cancel()
	default:
		err = measure(ctx, trip, at, s.Token)
	}
	if err != nil {
		trip.Lost = err.Error()
	}
	return ctx.Err() == nil
}

// turn is which of the networks' turns in a slot is this one's: 0 is the first. The order is random, and all pods of a
// node draw the same.
func (s *Session) turn(t *pairs.Trip) int {
	order := slices.Sorted(slices.Values(s.Networks))
	r := rand.New(rand.NewPCG(s.Seed, uint64(t.Round)<<40|uint64(t.Slot)<<24|uint64(t.Client)))
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return max(0, slices.Index(order, s.Network))
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
