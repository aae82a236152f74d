package odd

import (
	"cmp"
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

const (
	confidence = 0.95
	// smallGroup is the number of nodes below which a group has no scale of its own: how far its nodes may
	// honestly differ cannot be told from so few.
	smallGroup = 8
	// The smallest effects worth knowing, unless one is asked for.
	smallest, smallestOfSmall = 0.02, 0.05
	// unsteady is how many times the noise of its group a node must have at least to be called unsteady, and
	// unsteadyError how often, by ranks, a fleet of alike nodes may have such a node. It is little, since no second
	// pass confirms it, and since a fleet may have a node that is named for any reason in 5 % of cases only.
	unsteady, unsteadyError = 2, 0.01
	// unsteadyRounds is how many rounds it takes: among thousands of nodes, some have most of six values far out.
	unsteadyRounds = 10
	// awayError is up to which p-value of its ranks a node beyond the limit is left out when others are compared. In six
	// rounds of three nodes, one bad round alone makes it 0.08.
	awayError = 0.1
	// farthest is the most rounds that an unclear node is said to need.
	farthest = 1000
)

// Judge says what each node is in each metric. A node is named slow or fast only if all of this holds:
//
//   - An exact test of its ranks among the nodes of its group, over the rounds, rejects that it is like them. The
//     tests of all nodes and metrics together err in at most 5 % of fleets. If others are further away that are
//     rejected, it is tested among the rest as well.
//   - Its effect is beyond the group's Limit, and has the same sign in odd and in even rounds.
//   - The second pass confirms it: both passes together are beyond the Limit, and the second alone by half of it.
//
// Groups of the result are in the order of their names. Effect, Low and High are NaN where they are unknown:
// the interval takes six rounds. P is 1 where nothing was tested. A group of two shows how each compares with the
// other, and names nobody.
//
// Values beyond ±700 are not logarithms of a number, and count as none, as NaN does.
func Judge(in Input) Result {
	groups := groupsOf(&in)
	r := Result{Findings: make([][]Finding, len(in.Metrics)), Groups: make([][]Group, len(in.Metrics))}
	tables := make([][]*table, len(in.Metrics))
	for m := range in.Metrics {
		r.Findings[m] = make([]Finding, len(in.Nodes))
		for _, nodes := range groups {
			tables[m] = append(tables[m], newTable(&in.Metrics[m], nodes))
		}
	}
	adjust(tables)
	for m := range in.Metrics {
		for g, nodes := range groups {
			group := tables[m][g].judge(&in.Metrics[m], in.Smallest, r.Findings[m])
			group.Name = groupOf(&in, nodes[0])
			r.Groups[m] = append(r.Groups[m], group)
		}
	}
	return r
}

// groupsOf returns the nodes of each group, in the order of the groups' names.
func groupsOf(in *Input) [][]int {
	order := make([]int, len(in.Nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(groupOf(in, a), groupOf(in, b)) })
	var groups [][]int
	for k, i := range order {
		if k == 0 || groupOf(in, i) != groupOf(in, order[k-1]) {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], i)
	}
	return groups
}

func groupOf(in *Input, node int) string {
	if node < len(in.Groups) {
		return in.Groups[node]
	}
	return ""
}

// adjust makes the p-values of all tables, which are by metric and group, hold together: by Holm's method within a
// group, over its nodes and metrics, and with an equal share of the error for each group. Were all nodes of a fleet
// one family, then three nodes of their own kind beside a thousand others could never be told apart in ten rounds.
func adjust(tables [][]*table) {
	if len(tables) == 0 {
		return
	}
	groups := 0 // in which nodes are tested
	for g := range tables[0] {
		groups += btoi(len(tables[0][g].nodes) > 2)
	}
	for g := range tables[0] {
		var p, pNoise []float64
		for m := range tables {
			t := tables[m][g]
			t.tests = len(tables) * max(groups, 1)
			t.leaveOut()
			p, pNoise = append(p, t.p...), append(pNoise, t.pNoise...)
		}
		p, pNoise = stat.Holm(p), stat.Holm(pNoise)
		for m := range tables {
			t := tables[m][g]
			for i := range t.nodes {
				k := m*len(t.nodes) + i
				t.adjusted[i], t.adjustedNoise[i] = min(1, p[k]*float64(groups)), min(1, pNoise[k]*float64(groups))
			}
		}
	}
}

// judge fills in the findings of the table's nodes, and describes the group.
func (t *table) judge(metric *Metric, asked float64, findings []Finding) Group {
	all := t.findings()
	var measured []int
	for i, f := range all {
		if f.Verdict != NotMeasured {
			measured = append(measured, i)
		}
	}
	group, sides := t.describe(measured, asked)
	away, suspects := make([]bool, len(t.nodes)), make([]bool, len(t.nodes))
	center := stat.Median(at(t.estimates, measured))
	for _, i := range measured {
		if effect := t.estimates[i] - center; math.Abs(effect) > group.Limit && t.count > 2 && len(sides[0]) == 0 {
			away[i] = t.p[i] <= awayError
			suspects[i] = t.adjusted[i] <= 1-confidence && t.agrees(i, center)
		}
	}
	t.stepDown(suspects, center)
	if slices.Contains(away, true) {
		// One node of few that is far away pulls the median of each round to its side: the others are compared
		// without it.
		t.subtract(away)
		all = t.findings()
	}
	again := t.secondPass(metric, suspects)
	restless := t.restless(measured)
	for i, f := range all {
		switch {
		case f.Verdict == NotMeasured:
		case suspects[i]:
			f.Verdict = t.confirmed(i, again[i], group.Limit, metric.MoreIsSlow)
		case f.Rounds >= unsteadyRounds && f.Noise > restless && t.adjustedNoise[i] <= unsteadyError:
			f.Verdict = Unsteady
		case len(sides[0]) > 0:
			f.Verdict = Unclear
		case -group.Limit <= f.Low && f.High <= group.Limit:
			f.Verdict = Ordinary
		default:
			f.Verdict = Unclear
			f.Needs = t.needs(i, math.Abs(f.Effect), group.Limit)
		}
		findings[t.nodes[i]] = f
	}
	return group
}

// findings returns what is known of each node by itself; the verdict is NotMeasured or none yet.
func (t *table) findings() []Finding {
	all := make([]Finding, len(t.nodes))
	for i := range all {
		f := Finding{Effect: math.NaN(), Low: math.NaN(), High: math.NaN(), P: 1, Rounds: t.rounds(i)}
		if e := t.effectsOf(i); len(e) > 0 {
			r := stat.SignedRank(e, confidence)
			f.Effect, f.Low, f.High = r.Estimate, r.Interval.Low, r.Interval.High
			f.Noise = spread(e)
		}
		if !math.IsNaN(t.adjusted[i]) {
			f.P = t.adjusted[i]
		} else if t.count != 2 || math.IsNaN(f.Low) {
			f.Verdict = NotMeasured
		}
		t.estimates[i], t.noises[i] = f.Effect, f.Noise
		all[i] = f
	}
	return all
}

// describe returns what the group is like, and its sides if it is of two kinds, by the nodes that were measured.
func (t *table) describe(measured []int, asked float64) (group Group, sides [2][]int) {
	group = Group{Nodes: t.count, Small: len(measured) < smallGroup, Center: t.center()}
	least := asked
	switch {
	case least > 0 && !math.IsInf(least, 1):
	case group.Small:
		least = smallestOfSmall
	default:
		least = smallest
	}
	group.Limit = math.Log1p(least)
	if len(measured) == 0 {
		group.Spread, group.Noise = math.NaN(), math.NaN()
		return group, sides
	}
	estimates := at(t.estimates, measured)
	group.Noise = stat.Median(at(t.noises, measured))
	group.Spread = spread(estimates)
	if low, within := kinds(estimates, max(group.Limit, 4*t.standardError(measured, group.Noise))); low > 0 {
		order := slices.Clone(measured)
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.estimates[a], t.estimates[b]) })
		sides = [2][]int{order[:low], order[low:]}
		for k, side := range sides {
			slices.Sort(side)
			for _, i := range side {
				group.Modes[k] = append(group.Modes[k], t.nodes[i])
			}
		}
		group.Spread = within
	}
	if !group.Small {
		group.Limit = max(group.Limit, largest(len(measured), t.tests)*group.Spread)
	}
	return group, sides
}

// stepDown tests each suspect again among the nodes that are left when those suspects are taken away that are further
// from the center. Beside a node that is last in every round, the others are not each as likely to be first as last: of
// three, one that is a little faster than the third would be first in most rounds, and look as odd. Of two that are left,
// nobody can say which is odd, however many rounds there are.
func (t *table) stepDown(suspects []bool, center float64) {
	var order []int
	for i, is := range suspects {
		if is {
			order = append(order, i)
		}
	}
	far := func(i int) float64 { return math.Abs(t.estimates[i] - center) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(far(b), far(a)) })
	leftOut, left := make([]bool, len(t.nodes)), t.count
	for _, i := range order {
		if left < t.count {
			p := 1.0
			if left > 2 {
				p = t.pWithout(leftOut, i)
			}
			t.p[i] = max(t.p[i], p)
			t.adjusted[i] = max(t.adjusted[i], min(1, t.p[i]*float64(t.tests*left)))
			suspects[i] = t.adjusted[i] <= 1-confidence
		}
		if suspects[i] {
			leftOut[i] = true
			left--
		}
	}
	for i := range leftOut {
		if left <= 2 && left < t.count && !leftOut[i] {
			t.p[i] = 1 // no more rounds would tell: see needs
		}
	}
}

// agrees reports whether a node lies on the same side of the center in odd rounds, in even ones, and in all.
func (t *table) agrees(i int, center float64) bool {
	var halves [2][]float64
	for j, e := range t.effects[i] {
		if !math.IsNaN(e) {
			halves[j%2] = append(halves[j%2], e-center)
		}
	}
	effect := t.estimates[i] - center
	return stat.Median(halves[0])*effect > 0 && stat.Median(halves[1])*effect > 0
}

// restless returns the noise beyond which a node of the group is unsteady: the outermost of so many nodes with the
// same noise would not be beyond it. Logarithms of a MAD are nearly normal, with a longer tail below than above.
func (t *table) restless(measured []int) float64 {
	var logs []float64
	for _, i := range measured {
		if t.noises[i] > 0 {
			logs = append(logs, math.Log(t.noises[i]))
		}
	}
	if 2*len(logs) <= len(measured) {
		return math.Inf(1) // most have no noise: nothing to measure by
	}
	least := math.Log(unsteady)
	if len(logs) >= smallGroup {
		least = max(least, largest(len(logs), t.tests)*spread(logs))
	}
	return math.Exp(stat.Median(logs) + least)
}

// needs returns how many rounds an unclear node probably takes until it is clear; 0 = unknown.
func (t *table) needs(i int, effect, limit float64) int {
	e, n := t.effectsOf(i), 0
	if effect <= limit {
		n = stat.PairsFor(e, limit-effect, confidence)
	} else if p := t.p[i]; p > 0 && p < 1 {
		// The square of a normal deviate grows with the number of rounds.
		z, want := stat.Normal(1-p/2), stat.Normal(1-(1-confidence)/float64(t.tests*len(t.nodes))/2)
		n = int(min(math.Ceil(float64(len(e))*(want/z)*(want/z)), farthest+1))
	}
	if n == 0 || n > farthest {
		return 0
	}
	return max(n, len(e)+1)
}

// spread is 1.4826 times the MAD: of normal values, their standard deviation.
func spread(x []float64) float64 {
	center := stat.Median(x)
	d := make([]float64, len(x))
	for i, v := range x {
		d[i] = math.Abs(v - center)
	}
	return 1.4826 * stat.Median(d)
}

// at returns the values at some places.
func at(x []float64, places []int) []float64 {
	some := make([]float64, len(places))
	for k, i := range places {
		some[k] = x[i]
	}
	return some
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
