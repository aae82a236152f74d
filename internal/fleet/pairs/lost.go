package pairs

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// A Loss is a pair between which nothing could be measured in some rounds or in all, though both had round trips with
// others.
type Loss struct {
	Meeting        // as of a Link
	Rounds  int    // in which it was so
	Of      int    // rounds in which they met, and neither was silent
	Reason  string // the one that is most frequent
}

// A Silence is a node with which nobody had a round trip, in some rounds or in all.
type Silence struct {
	Node   int
	Rounds int    // in which it was so
	Of     int    // rounds in which it met two or more others
	Reason string // the one that is most frequent
}

// meetings is what became of the meetings of a node or pair, by round.
type meetings struct {
	good, bad map[int]int
	lost      []Trip
}

func newMeetings() *meetings { return &meetings{good: map[int]int{}, bad: map[int]int{}} }

func (m *meetings) take(t Trip, good bool) {
	if good {
		m.good[t.Round]++
		return
	}
	m.bad[t.Round]++
	m.lost = append(m.lost, t)
}

// silent reports whether two or more others had no answer in a round, and nobody had one.
func (m *meetings) silent(round int) bool { return m.good[round] == 0 && m.bad[round] >= 2 }

// reason is the most frequent one of those rounds.
func (m *meetings) reason(counts func(round int) bool) string {
	reasons := map[string]int{}
	for _, t := range m.lost {
		reasons[t.Lost] += count(counts(t.Round))
	}
	most := ""
	for _, text := range slices.Sorted(maps.Keys(reasons)) {
		if most == "" || reasons[text] > reasons[most] {
			most = text
		}
	}
	return most
}

// lost says between whom nothing of a kind could be measured. A node that has no round trip with anybody in a
// round explains all that is lost there; what is left is of links.
func lost(in Input, of kind) ([]Silence, []Loss) {
	var trips []Trip
	for _, t := range in.Trips {
		if t.kind() == of && in.known(t) && (in.usable(t) || t.Lost != "") {
			trips = append(trips, t)
		}
	}
	if !slices.ContainsFunc(trips, func(t Trip) bool { return t.Lost != "" }) {
		return nil, nil
	}
	nodes := make([]*meetings, len(in.Nodes))
	for i := range nodes {
		nodes[i] = newMeetings()
	}
	for _, t := range trips {
		nodes[t.Client].take(t, in.usable(t))
		nodes[t.Server].take(t, in.usable(t))
	}
	links := map[Meeting]*meetings{}
	for _, t := range trips {
		m := links[either(t.Meeting)]
		if m == nil {
			m = newMeetings()
			links[either(t.Meeting)] = m
		}
		if good := in.usable(t); good || !nodes[t.Client].silent(t.Round) && !nodes[t.Server].silent(t.Round) {
			m.take(t, good)
		}
	}
	return silences(nodes), losses(links)
}

func silences(nodes []*meetings) (all []Silence) {
	for i, m := range nodes {
		s := Silence{Node: i, Reason: m.reason(m.silent)}
		rounds := maps.Clone(m.good)
		maps.Copy(rounds, m.bad)
		for round := range rounds {
			s.Of += count(m.good[round]+m.bad[round] >= 2)
			s.Rounds += count(m.silent(round))
		}
		if s.Rounds > 0 {
			all = append(all, s)
		}
	}
	return all
}

func losses(links map[Meeting]*meetings) (all []Loss) {
	for pair, m := range links {
		l := Loss{Meeting: pair, Of: len(m.good)}
		l.Reason = m.reason(func(round int) bool { return m.good[round] == 0 })
		for round := range m.bad {
			l.Rounds += count(m.good[round] == 0)
		}
		l.Of += l.Rounds
		if l.Rounds > 0 {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(b.Rounds, a.Rounds), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Server, b.Server))
	})
	return all
}

// Clocks is how far the clock of each node is ahead of those of the nodes that it met, in seconds: the median over its
// meetings, so that a wrong clock among right ones moves its own number alone. Of two values in the middle, as with two
// others, it is the one nearer to 0. A node of which nothing is known is not in the map, and with fewer than three
// nobody can say whose clock is wrong.
func Clocks(trips []Trip) map[int]float64 {
	all := map[int][]float64{}
	for _, t := range trips {
		if t.Within > 0 {
			all[t.Client] = append(all[t.Client], -t.Ahead)
			all[t.Server] = append(all[t.Server], t.Ahead)
		}
	}
	if len(all) < 3 {
		return nil
	}
	ahead := map[int]float64{}
	for i, values := range all {
		slices.Sort(values)
		a, b := values[(len(values)-1)/2], values[len(values)/2]
		if ahead[i] = a; math.Abs(b) < math.Abs(a) {
			ahead[i] = b
		}
	}
	return ahead
}
