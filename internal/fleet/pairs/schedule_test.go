package pairs_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/tare-bench/tare/internal/fleet/pairs"
)

func unordered(m pairs.Meeting) pairs.Meeting {
	return pairs.Meeting{Client: min(m.Client, m.Server), Server: max(m.Client, m.Server)}
}

// Up to 64 nodes, all pairs meet once in a cycle, and nobody is in two places.
func TestAllPairsMeet(t *testing.T) {
	for nodes := range 65 {
		cycle := max(nodes-1+nodes%2, 1)
		slots := pairs.Slots(7, make([]string, nodes), 2, cycle)
		for round := range slots {
			met := make(map[pairs.Meeting]int)
			for slot, meetings := range slots[round] {
				disjoint(t, nodes, slot, meetings)
				if len(meetings) != nodes/2 {
					t.Errorf("%d nodes: slot %d has %d meetings", nodes, slot, len(meetings))
				}
				for _, m := range meetings {
					met[unordered(m)]++
				}
			}
			if len(met) != nodes*(nodes-1)/2 {
				t.Errorf("%d nodes, round %d: %d pairs met", nodes, round, len(met))
			}
		}
	}
}

func disjoint(t *testing.T, nodes, slot int, meetings []pairs.Meeting) {
	t.Helper()
	busy := make(map[int]bool)
	for _, m := range meetings {
		for _, node := range []int{m.Client, m.Server} {
			if node < 0 || node >= nodes || busy[node] {
				t.Errorf("%d nodes, slot %d: node %d meets two, or does not exist: %v", nodes, slot, node, meetings)
			}
			busy[node] = true
		}
	}
}

// Throughput is measured by the pairs of the slots, few at once.
func TestWaves(t *testing.T) {
	for _, nodes := range []int{2, 3, 12, 35, pairs.MostBulk} {
		const rounds = 4
		perRound := pairs.PerRound(nodes, rounds)
		slots := pairs.Slots(5, make([]string, nodes), rounds, perRound)
		for round, waves := range pairs.Waves(5, slots) {
			if n := pairs.WavesPerRound(nodes, perRound); len(waves) > n {
				t.Errorf("%d nodes: %d waves, at most %d are announced", nodes, len(waves), n)
			}
			all, planned := 0, 0
			for i, wave := range waves {
				disjoint(t, nodes, i, wave)
				if all += len(wave); len(wave) == 0 || len(wave) > 8 {
					t.Errorf("%d nodes: wave %d has %d pairs", nodes, i, len(wave))
				}
			}
			for _, slot := range slots[round] {
				planned += len(slot)
			}
			if all != planned {
				t.Errorf("%d nodes: %d of %d pairs measure throughput in %d waves", nodes, all, planned, len(waves))
			}
		}
	}
}

// Above 64 nodes, each has 24 meetings in a cycle, in its zone and in others.
func TestPartners(t *testing.T) {
	for _, nodes := range []int{65, 200, 1001} {
		zones := zonesOf(nodes, 3)
		slots := pairs.Slots(3, zones, 1, 24)[0]
		partners := make([]map[int]bool, nodes)
		across, all, clients := 0, 0, make([]int, nodes)
		for slot, meetings := range slots {
			disjoint(t, nodes, slot, meetings)
			if len(meetings) != nodes/2 {
				t.Errorf("%d nodes: slot %d has %d meetings", nodes, slot, len(meetings))
			}
			for _, m := range meetings {
				all++
				across += one(zones[m.Client] != zones[m.Server])
				clients[m.Client]++
				for _, p := range [][2]int{{m.Client, m.Server}, {m.Server, m.Client}} {
					if partners[p[0]] == nil {
						partners[p[0]] = make(map[int]bool)
					}
					partners[p[0]][p[1]] = true
				}
			}
		}
		for node, p := range partners {
			if len(p) < 12 {
				t.Errorf("%d nodes: node %d has %d partners", nodes, node, len(p))
			}
		}
		if across < all*45/100 || across > all*55/100 {
			t.Errorf("%d nodes: %d of %d meetings are across zones, want half", nodes, across, all)
		}
		if clients[0] == 0 || clients[0] == 24 {
			t.Errorf("%d nodes: node 0 is the client in %d of 24 meetings", nodes, clients[0])
		}
	}
}

// Nodes that do not talk to each other agree, and another seed is another plan.
func TestSlotsDependOnTheSeed(t *testing.T) {
	for _, nodes := range []int{5, 100} {
		plan := func(seed uint64) [][][]pairs.Meeting { return pairs.Slots(seed, zonesOf(nodes, 4), 4, 12) }
		if !reflect.DeepEqual(plan(1), plan(1)) {
			t.Errorf("%d nodes: one seed has two plans", nodes)
		}
		if reflect.DeepEqual(plan(1), plan(2)) {
			t.Errorf("%d nodes: two seeds have one plan", nodes)
		}
	}
}

func TestPerRound(t *testing.T) {
	for _, c := range []struct{ nodes, rounds, want int }{
		{0, 10, 0},
		{1, 10, 0},
		{2, 10, 1},
		{3, 10, 3},
		{4, 10, 3},
		{12, 10, 11},
		{20, 10, 12},
		{64, 10, 13},
		{64, 1, 63},
		{1000, 10, 12},
		{1000, 1, 24},
		{3, 0, 3},
	} {
		if got := pairs.PerRound(c.nodes, c.rounds); got != c.want {
			t.Errorf("%d nodes, %d rounds: %d slots, want %d", c.nodes, c.rounds, got, c.want)
		}
	}
}

func ExampleSlots() {
	for round, slots := range pairs.Slots(1, make([]string, 3), 2, 3) {
		fmt.Println(round, slots)
	}
	// Output:
	// 0 [[{0 1}] [{1 2}] [{2 0}]]
	// 1 [[{1 0}] [{0 2}] [{2 1}]]
}
