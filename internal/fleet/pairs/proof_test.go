package pairs_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// A world is a fleet that is simulated. All effects are logarithms.
type world struct {
	nodes, rounds int
	zones         []string // nil = one
	zone          float64  // what crossing zones adds
	noise         func(*rand.Rand) float64
	// How much nodes and links honestly differ, and nodes from round to round: standard deviations.
	nodesDiffer, linksDiffer, roundsDiffer float64
	slowNode                               float64 // what node 1 adds
	slowLink                               float64 // what the link of the nodes 0 and 2 adds
	unsteady                               float64 // the noise of node 3 is larger by this factor; 0 = it is not
	host                                   float64 // what the pod network costs, where host is measured, too; 0 = it is not
}

func normal(r *rand.Rand) float64 { return 0.03 * r.NormFloat64() }

func t3(r *rand.Rand) float64 {
	a, b, c := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
	return 0.03 * r.NormFloat64() / math.Sqrt((a*a+b*b+c*c)/3)
}

func contaminated(r *rand.Rand) float64 {
	if r.IntN(20) == 0 {
		return 0.3 * math.Abs(r.NormFloat64())
	}
	return normal(r)
}

var noises = []struct {
	name  string
	noise func(*rand.Rand) float64
}{{"normal", normal}, {"t3", t3}, {"contaminated", contaminated}}

// measure makes the trips of a fleet, and the node effects that they have.
func (w world) measure(seed uint64) (in pairs.Input, nodes []float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	in.Zones = w.zones
	if in.Zones == nil {
		in.Zones = make([]string, w.nodes)
	}
	nodes = make([]float64, w.nodes)
	for i := range nodes {
		in.Nodes = append(in.Nodes, fmt.Sprintf("node-%d", i))
		nodes[i] = w.nodesDiffer * r.NormFloat64()
	}
	nodes[1] += w.slowNode
	links := make(map[[2]int]float64)
	for i := range nodes {
		for j := range i {
			links[[2]int{j, i}] = w.linksDiffer * r.NormFloat64()
		}
	}
	links[[2]int{0, 2}] += w.slowLink
	drift := 0.0
	for round, slots := range pairs.Slots(seed, in.Zones, w.rounds, pairs.PerRound(w.nodes, w.rounds)) {
		drift += 0.05 * r.NormFloat64()
		today := make([]float64, w.nodes)
		for i := range today {
			today[i] = nodes[i] + w.roundsDiffer*r.NormFloat64()
		}
		for slot, meetings := range slots {
			for _, m := range meetings {
				y := math.Log(50e-6) + drift + today[m.Client] + today[m.Server] +
					links[[2]int{min(m.Client, m.Server), max(m.Client, m.Server)}]
				if in.Zones[m.Client] != in.Zones[m.Server] {
					y += w.zone
				}
				scale := 1.0
				if w.unsteady != 0 && (m.Client == 3 || m.Server == 3) {
					scale = w.unsteady
				}
				t := pairs.Trip{Meeting: m, Round: round, Slot: slot, Network: pairs.Pod}
				t.Seconds = math.Exp(y + scale*w.noise(r))
				in.Trips = append(in.Trips, t)
				if w.host != 0 {
					t.Network, t.Seconds = pairs.Host, math.Exp(y-w.host+scale*w.noise(r))
					in.Trips = append(in.Trips, t)
				}
			}
		}
	}
	return in, nodes
}

// named are how many nodes and links are slow or fast.
func named(r pairs.Result) (nodes, links int) {
	odd := func(v pairs.Verdict) int {
		if v == pairs.Slow || v == pairs.Fast {
			return 1
		}
		return 0
	}
	for _, n := range r.Nodes {
		nodes += odd(n.Verdict)
	}
	for _, l := range r.Links {
		links += odd(l.Verdict)
	}
	return nodes, links
}

func linkOf(t *testing.T, r pairs.Result, a, b int) pairs.Link {
	t.Helper()
	for _, l := range r.Links {
		if l.Client == a && l.Server == b {
			return l
		}
	}
	t.Fatalf("no link of %d and %d", a, b)
	return pairs.Link{}
}

// most is the count that a true rate p exceeds in fewer than 1 of 1000 tests.
func most(n int, p float64) int {
	return int(math.Ceil(float64(n)*p + 3.1*math.Sqrt(float64(n)*p*(1-p))))
}

func percent(k, n int) string { return fmt.Sprintf("%.1f %%", 100*float64(k)/float64(n)) }

// repeat is how many fleets of so many nodes are simulated: large ones take longer, and the short form has none.
func repeat(nodes, few, proof int) int {
	n := analysistest.Repetitions(few, proof)
	switch {
	case nodes > 20 && n == few:
		return 0
	case nodes > 64:
		return n / 20
	case nodes > 20:
		return n / 5
	}
	return n
}

// TestFalseAlarms simulates fleets in which no node and no link is odd, and counts those in which any is named.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	t.Logf("%-13s %6s %7s %-28s %8s %8s", "noise", "nodes", "fleets", "which differ", "a node", "a link")
	three := func(n int) []string { return zonesOf(n, 3) }
	for _, nodes := range []int{3, 4, 5, 8, 20, 64, 200} {
		for _, noise := range noises {
			for _, c := range []struct {
				name string
				w    world
			}{
				{"nothing", world{}},
				{"nodes, links, rounds: 2 %", world{nodesDiffer: 0.02, linksDiffer: 0.02, roundsDiffer: 0.02}},
				{"nodes 4 %, links 5 %", world{nodesDiffer: 0.04, linksDiffer: 0.05}}, // less than eight have no scale
				{"a node is unsteady", world{unsteady: 4}},
				{"three zones", world{zones: three(nodes), zone: 0.7}},
				{"both networks", world{host: 0.3}},
			} {
				w := c.w
				w.nodes, w.rounds, w.noise = nodes, 8, noise.noise
				if (w.unsteady != 0 || w.nodesDiffer == 0.04) && nodes < 8 {
					continue
				}
				n, anyNode, anyLink, either := repeat(nodes, 20, 600), 0, 0, 0
				for i := range n {
					in, _ := w.measure(uint64(i + 1))
					someNode, someLink := false, false
					for _, r := range pairs.Analyze(in) {
						k, l := named(r)
						someNode, someLink = someNode || k > 0, someLink || l > 0
					}
					anyNode, anyLink, either = anyNode+one(someNode), anyLink+one(someLink), either+one(someNode || someLink)
				}
				t.Logf("%-13s %6d %7d %-28s %8s %8s", noise.name, nodes, n, c.name, percent(anyNode, n), percent(anyLink, n))
				if either > most(n, 0.05) {
					t.Errorf("%d nodes, %s noise, %s: somebody is named in %d of %d fleets", nodes, noise.name, c.name, either, n)
				}
			}
		}
	}
}

func zonesOf(nodes, zones int) []string {
	all := make([]string, nodes)
	for i := range all {
		all[i] = fmt.Sprintf("zone-%d", i%zones)
	}
	return all
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestPower plants a node that is 20 % slow, and a link that takes twice as long.
func TestPower(t *testing.T) {
	t.Parallel()
	t.Logf("%-13s %6s %7s %8s %8s %8s %8s", "noise", "nodes", "fleets", "node", "others", "link", "others")
	for _, nodes := range []int{3, 4, 8, 20, 64} {
		for _, noise := range noises {
			w := world{nodes: nodes, rounds: 8, noise: noise.noise, nodesDiffer: 0.01, roundsDiffer: 0.01}
			n := repeat(nodes, 10, 400)
			var node, otherNode, link, otherLink int
			for i := range n {
				w.slowNode, w.slowLink = math.Log(1.2), 0
				in, _ := w.measure(uint64(i + 1))
				r := pairs.Analyze(in)[0]
				k, l := named(r)
				found := one(r.Nodes[1].Verdict == pairs.Slow)
				node, otherNode = node+found, otherNode+one(k+l > found)
				w.slowNode, w.slowLink = 0, math.Log(2)
				in, _ = w.measure(uint64(i + 1))
				r = pairs.Analyze(in)[0]
				k, l = named(r)
				found = one(linkOf(t, r, 0, 2).Verdict == pairs.Slow)
				link, otherLink = link+found, otherLink+one(k+l > found)
			}
			t.Logf("%-13s %6d %7d %8s %8s %8s %8s", noise.name, nodes, n,
				percent(node, n), percent(otherNode, n), percent(link, n), percent(otherLink, n))
			missed := 0.1
			if nodes > 20 {
				missed = 0.3 // a link is measured twice there; if one of them is not clean, that is too little
			}
			if n-node > most(n, 0.1) || n-link > most(n, missed) {
				t.Errorf("%d nodes, %s noise: found %d nodes and %d links of %d", nodes, noise.name, node, link, n)
			}
			if otherNode > most(n, 0.05) || otherLink > most(n, 0.05) {
				t.Errorf("%d nodes, %s noise: others named beside the node in %d, beside the link in %d of %d fleets",
					nodes, noise.name, otherNode, otherLink, n)
			}
		}
	}
}

// TestCoverage counts how often intervals miss what was planted.
func TestCoverage(t *testing.T) {
	t.Parallel()
	t.Logf("%-13s %6s %7s; missed: %8s %8s %8s %8s", "noise", "nodes", "fleets", "node", "link", "zone", "cost")
	for _, nodes := range []int{3, 4, 8, 20, 64} {
		for _, noise := range noises {
			w := world{nodes: nodes, rounds: 8, noise: noise.noise, roundsDiffer: 0.01, host: 0.3}
			if nodes >= 8 {
				w.zones, w.zone = zonesOf(nodes, 2), 0.7
			}
			n := repeat(nodes, 20, 600)
			var node, link, zone, cost int
			for i := range n {
				w.slowNode, w.slowLink = math.Log(1.2), 0
				in, _ := w.measure(uint64(i + 1))
				r := pairs.Analyze(in)[0]
				node += one(misses(r.Nodes[1].Effect, math.Log(1.2)))
				zone += one(misses(r.Zone, w.zone))
				cost += one(misses(*r.Cost, w.host))
				w.slowNode, w.slowLink = 0, math.Log(2)
				in, _ = w.measure(uint64(i + 1))
				link += one(misses(linkOf(t, pairs.Analyze(in)[0], 0, 2).Effect, math.Log(2)))
			}
			t.Logf("%-13s %6d %7d          %8s %8s %8s %8s", noise.name, nodes, n,
				percent(node, n), percent(link, n), percent(zone, n), percent(cost, n))
			for what, missed := range map[string]int{"node": node, "link": link, "zone": zone, "cost": cost} {
				if missed > most(n, 0.05) {
					t.Errorf("%d nodes, %s noise: the interval of the %s misses in %d of %d fleets",
						nodes, noise.name, what, missed, n)
				}
			}
		}
	}
}

func misses(e pairs.Effect, truth float64) bool { return truth < e.Low || truth > e.High }
