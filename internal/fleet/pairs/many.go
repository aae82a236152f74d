package pairs

import (
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

// A round of four or more nodes is an experiment of its own: what its nodes, links and zones add is fitted to its own
// trips, so that rounds are independent of each other though a node's trips in one are not. Tests and intervals are of
// the values by round. All rounds together only say which links and nodes are far from the others: a far link takes no
// part in the fits, since it is not its nodes' fault, and a far node none in the middle that nodes are compared with.

// testMany makes the estimates and claims of four or more nodes.
func (s *study) testMany() {
	rounds := byRound(s.values)
	whole := model{node: make([]float64, len(s.Nodes))}
	level := withoutDrift(rounds)
	whole.fitRobust(level, s.zones)
	farLinks, near := s.farLinks(whole, level), s.nearNodes(whole)
	nodes := make([]parts, len(s.Nodes))
	rests := make(map[Meeting][]float64)
	var zones []float64
	used := 0
	for _, values := range rounds {
		usual := slices.DeleteFunc(slices.Clone(values), func(v value) bool { return farLinks[v.link()] })
		m := model{center: whole.center, zone: whole.zone, node: slices.Clone(whole.node)}
		m.fit(usual, s.zones)
		addRound(nodes, m, near, usual)
		used += len(usual)
		for _, v := range values {
			rests[v.link()] = append(rests[v.link()], m.rest(v))
		}
		zones = append(zones, m.zone)
	}
	if s.zones {
		s.Zone = effect(zones)
	}
	for _, i := range s.judged {
		n := &s.Nodes[i]
		n.Effect, n.Rounds = effect(nodes[i].effects), len(nodes[i].effects)
		if n.Rounds >= Enough {
			s.nodeClaims = append(s.nodeClaims, claim{twoSided(nodes[i].places, n.Rounds), []*float64{&n.P}})
		}
	}
	s.testLinks(rests, s.wider(len(rounds), used))
}

// farLinks returns the links with median rests beyond half of the smallest effect, and beyond what is usual.
func (s *study) farLinks(m model, values []value) map[Meeting]bool {
	rests := make(map[Meeting][]float64)
	for _, v := range values {
		rests[v.link()] = append(rests[v.link()], m.rest(v))
	}
	limit := max(s.smallest/2, 3*mad(medians(rests)))
	far := make(map[Meeting]bool)
	for link, x := range rests {
		far[link] = math.Abs(stat.Median(x)) > limit
	}
	return far
}

// nearNodes says which nodes are within half of the smallest effect, or within what is usual.
func (s *study) nearNodes(m model) []bool {
	var judged []float64
	for _, i := range s.judged {
		judged = append(judged, m.node[i])
	}
	limit := max(s.smallest/2, 3*mad(judged))
	near := make([]bool, len(m.node))
	for i, x := range m.node {
		near[i] = math.Abs(x) <= limit
	}
	return near
}

func (v value) link() Meeting { return Meeting{v.i, v.j} }

// parts are what a node adds in each round, and the sum of its places among the nodes of a round.
type parts struct {
	effects []float64
	places  float64
}

// addRound adds what nodes are in a round, against the mean of those that are near to each other.
func addRound(nodes []parts, m model, near []bool, values []value) {
	var present []int
	for _, v := range values {
		present = append(present, v.i, v.j)
	}
	slices.Sort(present)
	present = slices.Compact(present)
	sum, count := 0.0, 0.0
	for _, i := range present {
		if near[i] {
			sum, count = sum+m.node[i], count+1
		}
	}
	effects := make([]float64, len(present))
	for k, i := range present {
		effects[k] = m.node[i] - sum/max(count, 1)
	}
	for k, place := range relativeRanks(effects) {
		n := &nodes[present[k]]
		n.effects, n.places = append(n.effects, effects[k]), n.places+place
	}
}

// byRound divides values that are sorted by round.
func byRound(values []value) [][]value {
	var rounds [][]value
	for begin, i := 0, 0; i < len(values); i++ {
		if i+1 == len(values) || values[i+1].round != values[i].round {
			rounds, begin = append(rounds, values[begin:i+1]), i+1
		}
	}
	return rounds
}

// withoutDrift takes from each value the median of its round: nights are faster than days. It is that of the paths
// within zones, if there are any: that of all would be now of the one kind, now of the other.
func withoutDrift(rounds [][]value) []value {
	var all []value
	for _, values := range rounds {
		var within, across []float64
		for _, v := range values {
			if v.cross {
				across = append(across, v.y)
			} else {
				within = append(within, v.y)
			}
		}
		if len(within) == 0 {
			within = across
		}
		middle := stat.Median(within)
		for _, v := range values {
			v.y -= middle
			all = append(all, v)
		}
	}
	return all
}

// wider is how much larger the noise of a link that takes no part in the fits is than the rests of those that do: with
// few values in a round, fits make the rests smaller. used is how many values of all rounds take part.
func (s *study) wider(rounds, used int) float64 {
	free := func(values int) float64 { return max(1-float64(len(s.judged)*rounds)/float64(max(values, 1)), 0.1) }
	return 1 / math.Sqrt(free(len(s.values))*free(used))
}

// testLinks compares the rests of each link with those of all. Those of a node that is unsteady are large on all of
// its links, so they are measured by what is usual for their ends.
func (s *study) testLinks(rests map[Meeting][]float64, wider float64) {
	scale := scales(len(s.Nodes), rests)
	standard := func(m Meeting) []float64 {
		own := slices.Clone(rests[m])
		for k := range own {
			own[k] /= scale(m)
		}
		slices.Sort(own)
		return own
	}
	var all []float64
	for m := range rests {
		all = append(all, standard(m)...)
	}
	slices.Sort(all)
	for i := range s.Links {
		l := &s.Links[i]
		if rests[l.Meeting] == nil {
			continue // of a node that cannot be judged
		}
		links := sample{own: standard(l.Meeting), all: all}
		low, high := links.interval()
		middle, unit := stat.Median(rests[l.Meeting]), scale(l.Meeting)
		l.Effect = Effect{middle, middle - wider*max(middle-low*unit, 0), middle + wider*max(high*unit-middle, 0)}
		s.linkClaims = append(s.linkClaims, claim{links.p(), []*float64{&l.P}})
	}
}

// scales returns how large rests of a link usually are: the larger of what is usual for its two ends. Below eight
// nodes, too few links have an end for that: it is the same for all.
func scales(nodes int, rests map[Meeting][]float64) func(Meeting) float64 {
	ofNode := make([][]float64, nodes)
	for m, x := range rests {
		ofNode[m.Client], ofNode[m.Server] = append(ofNode[m.Client], x...), append(ofNode[m.Server], x...)
	}
	scale := make([]float64, nodes)
	present := 0
	for i, x := range ofNode {
		scale[i] = max(mad(x), 1e-6)
		present += count(len(x) > 0)
	}
	if present < scaled {
		return func(Meeting) float64 { return 1 }
	}
	return func(m Meeting) float64 { return max(scale[m.Client], scale[m.Server]) }
}

func (s *study) nameMany() {
	var nodes, links []float64
	for _, i := range s.judged {
		nodes = append(nodes, s.Nodes[i].Estimate)
	}
	for _, l := range s.Links {
		if s.judges(l) {
			links = append(links, l.Estimate)
		}
	}
	s.NodeLimit, s.LinkLimit = limitOf(nodes, s.smallest), limitOf(links, s.smallest)
	clearly := s.NodeLimit
	if len(s.judged) < scaled {
		clearly /= 2 // few nodes have wide intervals, and no scale that would need them
	}
	for _, i := range s.judged {
		n := &s.Nodes[i]
		n.Verdict = verdict(n.Effect, n.P, s.NodeLimit, clearly, n.Rounds)
	}
	for i := range s.Links {
		if l := &s.Links[i]; s.judges(*l) {
			l.Verdict = verdict(l.Effect, l.P, s.LinkLimit, s.LinkLimit, Enough)
		}
	}
}

func (s *study) judges(l Link) bool {
	return !slices.Contains(s.Apart, l.Client) && !slices.Contains(s.Apart, l.Server)
}
