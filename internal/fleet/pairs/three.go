package pairs

import (
	"math"
	"slices"
)

// Three nodes have three links, and there is one comparison for each node: its two links against the one between the
// two others. If they are slower, the node is slow or that link is fast; if they are faster, the other way round.
// tare says both, and names one comparison at most: two nodes that are both slow look like a third that is fast.

// A trio is the logarithms of three links, each by round; a link has the index of the node that is not of it.
type trio [3][]float64

// trio returns the rounds in which all three links were measured.
func (s *study) trio() trio {
	var t trio
	for _, values := range byRound(s.values) {
		if len(values) != 3 {
			continue
		}
		for _, v := range values {
			k := slices.IndexFunc(s.judged, func(i int) bool { return i != v.i && i != v.j })
			t[k] = append(t[k], v.y)
		}
	}
	return t
}

// against returns the effect of a node by round: its two links against the third.
func (t trio) against(k int) []float64 {
	effects := make([]float64, len(t[k]))
	for r := range effects {
		effects[r] = (t[(k+1)%3][r]+t[(k+2)%3][r])/2 - t[k][r]
	}
	return effects
}

// between returns by how much one node is slower than another, by round, seen from the third.
func (t trio) between(k, other int) []float64 {
	effects := make([]float64, len(t[k]))
	for r := range effects {
		effects[r] = (t[other][r] - t[k][r]) / 2
	}
	return effects
}

func (s *study) testThree() {
	t := s.trio()
	rounds := len(t[0])
	if rounds == 0 {
		return
	}
	var places [3]float64
	for r := range rounds {
		for k, place := range relativeRanks([]float64{t[0][r], t[1][r], t[2][r]}) {
			places[k] += place
		}
	}
	for k, i := range s.judged {
		n, l := &s.Nodes[i], s.opposite(k)
		n.Effect, n.Rounds = effect(t.against(k)), rounds
		l.Effect, l.Rounds = n.negative(), rounds
		if rounds >= Enough {
			s.nodeClaims = append(s.nodeClaims, claim{twoSided(places[k], rounds), []*float64{&n.P, &l.P}})
		}
	}
}

func (e Effect) negative() Effect { return Effect{-e.Estimate, -e.High, -e.Low} }

// opposite returns the link that is not of a node.
func (s *study) opposite(k int) *Link {
	m := either(Meeting{s.judged[(k+1)%3], s.judged[(k+2)%3]})
	i := slices.IndexFunc(s.Links, func(l Link) bool { return l.Meeting == m })
	return &s.Links[i]
}

// nameThree names the clearest comparison, if any is clear. What the others are is then seen without it: by how much
// the other two nodes differ.
func (s *study) nameThree() {
	s.NodeLimit, s.LinkLimit = s.smallest, s.smallest
	t := s.trio()
	rounds := len(t[0])
	if rounds == 0 {
		return
	}
	clearest, far := -1, 0.0
	for k, i := range s.judged {
		n := s.Nodes[i]
		v := verdict(n.Effect, n.P, s.NodeLimit, s.NodeLimit/2, rounds)
		if (v == Slow || v == Fast) && math.Abs(n.Estimate) > far {
			clearest, far = k, math.Abs(n.Estimate)
		}
	}
	if clearest < 0 {
		for k, i := range s.judged {
			v := verdict(s.Nodes[i].Effect, 1, s.NodeLimit, 0, rounds)
			s.Nodes[i].Verdict, s.opposite(k).Verdict = v, v
		}
		return
	}
	n, l := &s.Nodes[s.judged[clearest]], s.opposite(clearest)
	if n.Estimate > 0 {
		link := l.Meeting
		n.Verdict, n.OrLink = Slow, &link
	} else {
		node := s.judged[clearest]
		l.Verdict, l.OrNode = Slow, &node
	}
	a, b := (clearest+1)%3, (clearest+2)%3
	for _, pair := range [][2]int{{a, b}, {b, a}} {
		e := effect(t.between(pair[0], pair[1]))
		v := verdict(e, 1, s.NodeLimit, 0, rounds)
		// The link that the third node has with this one is slower by as much, too.
		node, link := &s.Nodes[s.judged[pair[0]]], s.opposite(pair[1])
		node.Effect, node.Verdict, link.Effect, link.Verdict = e, v, e, v
	}
}
