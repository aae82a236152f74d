package pairs

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// allPairs is the largest fleet in which every node meets every other one. In a larger one, a cycle has partners
// meetings for each node.
const (
	allPairs = 64
	partners = 24
)

// enoughSlots is how many meetings tell a node's part of a round trip from its partners' in one round.
const enoughSlots = 12

// PerRound returns how many slots a round has by default: all pairs meet in each round of a small fleet; in a larger
// one, all pairs meet twice in all rounds, and a node has at least twelve meetings in each.
func PerRound(nodes, rounds int) int {
	cycle := cycleLength(nodes)
	twice := (2*cycle + rounds - 1) / max(rounds, 1)
	return min(cycle, max(twice, enoughSlots))
}

// cycleLength is how many slots it takes until all have met that ever do.
func cycleLength(nodes int) int {
	switch {
	case nodes < 2:
		return 0
	case nodes > allPairs:
		return partners
	default:
		return nodes - 1 + nodes%2 // with an odd number, one has a bye in each slot
	}
}

// Slots returns who meets whom, by round and slot: the meetings of a slot are at the same time, and no node is in two
// of them. It depends on nothing but its arguments, so that each node can compute it. zones are those of the nodes;
// all of one zone, or all "", if they are not known. rounds and perRound are at least 1.
func Slots(seed uint64, zones []string, rounds, perRound int) [][][]Meeting {
	r := rand.New(rand.NewPCG(seed, 0x7061697273)) // "pairs": other draws of the same seed are others
	cycle := drawCycle(r, zones)
	all := make([][][]Meeting, rounds)
	var order []int
	for round := range all {
		all[round] = make([][]Meeting, 0, perRound)
		for range perRound {
			if len(cycle) == 0 {
				break
			}
			if len(order) == 0 {
				order = r.Perm(len(cycle))
			}
			all[round] = append(all[round], drawRoles(r, cycle[order[0]]))
			order = order[1:]
		}
	}
	return all
}

// atOnce is how many pairs measure throughput at the same time: few, so that they share no bottleneck.
const atOnce = 8

// MostBulk is the largest fleet in which throughput is measured: in a larger one, rounds would take too long.
const MostBulk = allPairs

// Waves returns who measures throughput, by round and wave: the meetings of Slots, slot by slot, few at once in an order
// that is drawn for each slot.
func Waves(seed uint64, slots [][][]Meeting) [][][]Meeting {
	r := rand.New(rand.NewPCG(seed, 0x7761766573)) // "waves": other draws of the same seed are others
	all := make([][][]Meeting, len(slots))
	for round, meetings := range slots {
		for _, slot := range meetings {
			slot = slices.Clone(slot)
			r.Shuffle(len(slot), func(i, j int) { slot[i], slot[j] = slot[j], slot[i] })
			for wave := range slices.Chunk(slot, atOnce) {
				all[round] = append(all[round], wave)
			}
		}
	}
	return all
}

// WavesPerRound is how many waves a round has at most that has so many slots.
func WavesPerRound(nodes, perRound int) int { return perRound * ((nodes/2 + atOnce - 1) / atOnce) }

// drawRoles draws who is the client of each meeting, so that no node's part depends on its role.
func drawRoles(r *rand.Rand, slot []Meeting) []Meeting {
	slot = slices.Clone(slot)
	for i, m := range slot {
		if r.IntN(2) == 0 {
			slot[i] = Meeting{m.Server, m.Client}
		}
	}
	return slot
}

func drawCycle(r *rand.Rand, zones []string) [][]Meeting {
	if len(zones) <= allPairs {
		return circle(r.Perm(len(zones)))
	}
	var cycle [][]Meeting
	for i := range partners {
		order := r.Perm(len(zones))
		if i%2 == 0 {
			cycle = append(cycle, within(order, zones))
		} else {
			cycle = append(cycle, across(order, zones))
		}
	}
	return cycle
}

// circle is the round robin by the circle method: one place stands still, and the others turn.
func circle(order []int) [][]Meeting {
	const bye = -1
	if len(order)%2 == 1 {
		order = append(order, bye)
	}
	turning := len(order) - 1
	var cycle [][]Meeting
	for t := range max(turning, 0) {
		var slot []Meeting
		meet := func(a, b int) {
			if a != bye && b != bye {
				slot = append(slot, Meeting{a, b})
			}
		}
		meet(order[turning], order[t])
		for i := 1; i <= turning/2; i++ {
			meet(order[(t+i)%turning], order[(t-i+turning)%turning])
		}
		cycle = append(cycle, slot)
	}
	return cycle
}

// within lets nodes meet in their own zone; the odd ones of zones meet each other.
func within(order []int, zones []string) []Meeting {
	var slot []Meeting
	waits := make(map[string]int)
	for _, node := range order {
		other, ok := waits[zones[node]]
		if !ok {
			waits[zones[node]] = node
			continue
		}
		slot = append(slot, Meeting{other, node})
		delete(waits, zones[node])
	}
	var left []int
	for _, node := range order { // not by the map, whose order is nobody's
		if other, ok := waits[zones[node]]; ok && other == node {
			left = append(left, node)
		}
	}
	for ; len(left) > 1; left = left[2:] {
		slot = append(slot, Meeting{left[0], left[1]})
	}
	return slot
}

// across lets nodes meet in other zones, but for what a zone has beyond half of all nodes: sorted by zone, a node and
// the one half of all places further are of the same zone only if it is that large.
func across(order []int, zones []string) []Meeting {
	byZone := slices.Clone(order)
	slices.SortStableFunc(byZone, func(a, b int) int { return cmp.Compare(zones[a], zones[b]) })
	half := len(byZone) / 2
	var slot []Meeting
	for i := range half {
		slot = append(slot, Meeting{byZone[i], byZone[half+i]})
	}
	return slot
}
