package pairs

import (
	"cmp"
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

const (
	// smallest is the default of Input.Smallest.
	smallest = 0.1
	level    = 0.95
	// scaled is how many nodes or links it takes to say how much they differ anyway.
	scaled = 8
)

// Analyze says what round trips tell, one Result for each network that has any, Pod first; and then what throughput
// tells. It does not modify its argument. Trips of unknown nodes, of a node with itself, and without a positive time are
// not used.
//
// The probability that it names any node or link of a fleet in which none differs is at most 5 %: docs/fleet-paths.md.
func Analyze(in Input) []Result {
	limit := in.Smallest
	if limit <= 0 {
		limit = smallest
	}
	var studies []*study
	var nodes, links []claim
	for _, k := range []kind{{Pod, false}, {Host, false}, {Pod, true}, {Host, true}} {
		values := collect(in, k)
		silent, losses := lost(in, k)
		if len(values)+len(silent)+len(losses) == 0 {
			continue
		}
		s := newStudy(in, k, values, math.Log1p(limit))
		s.Silent, s.Losses = silent, losses
		s.test()
		studies, nodes, links = append(studies, s), append(nodes, s.nodeClaims...), append(links, s.linkClaims...)
	}
	adjust(nodes)
	adjust(links)
	results := make([]Result, len(studies))
	for i, s := range studies {
		s.name()
		results[i] = s.Result
	}
	for i := range results {
		if r := &results[i]; r.Network == Pod {
			r.Cost = cost(in, r.Bulk)
		}
	}
	return results
}

// A kind is what is analyzed by itself: what was measured over a network.
type kind struct {
	network string
	bulk    bool
}

func (t Trip) kind() kind { return kind{t.Network, t.Bulk} }

// A claim is one test; its adjusted probability belongs to one or several findings.
type claim struct {
	p  float64
	of []*float64
}

// adjust makes the probability that any of the claims is wrong half of what is allowed: nodes have one half of it, and
// links the other.
func adjust(claims []claim) {
	p := make([]float64, len(claims))
	for i, c := range claims {
		p[i] = min(2*c.p, 1)
	}
	for i, adjusted := range stat.Holm(p) {
		for _, of := range claims[i].of {
			*of = adjusted
		}
	}
}

// usable reports whether a trip has a time that can be used.
func (in Input) usable(t Trip) bool { return in.known(t) && t.Seconds > 0 && !math.IsInf(t.Seconds, 0) }

// known reports whether a trip is one between two nodes.
func (in Input) known(t Trip) bool {
	n := len(in.Nodes)
	return t.Client >= 0 && t.Client < n && t.Server >= 0 && t.Server < n && t.Client != t.Server
}

func (in Input) zone(node int) string {
	if node >= len(in.Zones) {
		return ""
	}
	return in.Zones[node]
}

// either is a meeting whoever was the client.
func either(m Meeting) Meeting { return Meeting{min(m.Client, m.Server), max(m.Client, m.Server)} }

// collect returns the values of a kind, one for each pair and round: the median of its trips in that round, which
// are not independent of each other. They are sorted by round and pair.
func collect(in Input, of kind) []value {
	type key struct {
		Meeting
		round int
	}
	times := make(map[key][]float64)
	for _, t := range in.Trips {
		if t.kind() == of && in.usable(t) {
			k := key{either(t.Meeting), t.Round}
			times[k] = append(times[k], math.Log(t.Seconds))
		}
	}
	values := make([]value, 0, len(times))
	for k, y := range times {
		values = append(values, value{
			i: k.Client, j: k.Server, round: k.round, y: stat.Median(y),
			cross: in.zone(k.Client) != in.zone(k.Server),
		})
	}
	slices.SortFunc(values, func(a, b value) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.i, b.i), cmp.Compare(a.j, b.j))
	})
	return values
}

// A study is the analysis of one kind.
type study struct {
	Result
	smallest float64 // effect worth knowing, a logarithm
	values   []value // of nodes that can be judged
	judged   []int   // those nodes
	zones    bool    // what crossing zones adds can be told

	nodeClaims, linkClaims []claim
}

func newStudy(in Input, of kind, values []value, smallest float64) *study {
	s := &study{Result: Result{Network: of.network, Bulk: of.bulk}, smallest: smallest}
	s.Nodes = make([]Node, len(in.Nodes))
	for i := range s.Nodes {
		s.Nodes[i] = Node{Verdict: Unclear, P: 1}
	}
	times := make(map[Meeting][]float64)
	rounds := make(map[[2]int]bool) // of each node
	for _, v := range values {
		m := Meeting{v.i, v.j}
		times[m] = append(times[m], v.y)
		rounds[[2]int{v.i, v.round}], rounds[[2]int{v.j, v.round}] = true, true
	}
	for k := range rounds {
		s.Nodes[k[0]].Rounds++
	}
	var all []float64
	for m, y := range times {
		l := Link{Meeting: m, Verdict: Unclear, P: 1, Seconds: math.Exp(stat.Median(y)), Rounds: len(y)}
		s.Links, all = append(s.Links, l), append(all, l.Seconds)
	}
	if len(all) > 0 {
		s.Center = stat.Median(all)
	}
	slices.SortFunc(s.Links, func(a, b Link) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Server, b.Server))
	})
	s.choose(in, values)
	return s
}

// choose says which nodes can be judged. A zone of few nodes looks like slow nodes if there is only one other zone, or
// only others of one node; then the nodes of the largest zone alone are judged.
func (s *study) choose(in Input, values []value) {
	of := make(map[string][]int)
	for i, n := range s.Nodes {
		if n.Rounds > 0 {
			of[in.zone(i)] = append(of[in.zone(i)], i)
		}
	}
	large, several, largest := 0, 0, ""
	for zone, nodes := range of {
		large += count(len(nodes) >= 3)
		several += count(len(nodes) >= 2)
		if n := len(of[largest]); len(nodes) > n || len(nodes) == n && zone < largest {
			largest = zone
		}
	}
	_, unknown := of[""]
	switch {
	case unknown || len(of) == 1 || several == 0: // all paths are alike, as far as anybody knows
		for i := range values {
			values[i].cross = false
		}
	case len(of) == 2 && large == 2 || len(of) > 2 && several >= 2:
		s.zones = true
	default:
		of = map[string][]int{largest: of[largest]}
	}
	for i, n := range s.Nodes {
		switch {
		case n.Rounds == 0:
		case slices.Contains(of[in.zone(i)], i):
			s.judged = append(s.judged, i)
		default:
			s.Apart = append(s.Apart, i)
		}
	}
	s.values = slices.DeleteFunc(values, func(v value) bool {
		return slices.Contains(s.Apart, v.i) || slices.Contains(s.Apart, v.j)
	})
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// test makes the estimates, and the claims to be adjusted.
func (s *study) test() {
	switch n := len(s.judged); {
	case n == 3:
		s.testThree()
	case n > 3:
		s.testMany()
	}
}

// name gives the verdicts.
func (s *study) name() {
	switch n := len(s.judged); {
	case n == 3:
		s.nameThree()
	case n > 3:
		s.nameMany()
	}
}

// effect is the centre of independent values with its interval; see Effect for too few of them.
func effect(x []float64) Effect {
	p := stat.SignedRank(x, level)
	switch {
	case p.OK:
		return Effect{p.Estimate, p.Interval.Low, p.Interval.High}
	case len(x) == 0:
		return Effect{}
	default:
		return Effect{stat.Median(x), slices.Min(x), slices.Max(x)}
	}
}

// Enough is how many rounds an interval takes: with fewer, no node is named.
var Enough = stat.MinPairs(level, 1)

// verdict says what an effect means. It is named if p says that it is not chance, it is beyond the limit, and all of its
// interval is beyond clearly.
func verdict(e Effect, p, limit, clearly float64, rounds int) Verdict {
	switch {
	case p <= 1-level && e.Estimate > limit && e.Low > clearly:
		return Slow
	case p <= 1-level && e.Estimate < -limit && e.High < -clearly:
		return Fast
	case rounds >= Enough && -limit < e.Low && e.High < limit:
		return Ordinary
	default:
		return Unclear
	}
}

// limitOf is how far one of several may be from the others: the largest of as many normal values is no further in 95 %
// of cases. The median of so few deviates itself, which the factor allows for: it was simulated.
func limitOf(estimates []float64, smallest float64) float64 {
	n := float64(len(estimates))
	if len(estimates) < scaled {
		return smallest
	}
	middle := stat.Median(estimates)
	deviations := make([]float64, len(estimates))
	for i, e := range estimates {
		deviations[i] = e - middle
	}
	return max(smallest, stat.Normal(1-(1-level)/2/n)*(1+7/n)*mad(deviations))
}
