package odd_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/fleet/odd"
)

// calm returns the values of nodes with effects, over rounds with a common drift and little noise.
func calm(rounds int, effects ...float64) [][]float64 {
	r := rand.New(rand.NewPCG(1, uint64(rounds)))
	values := make([][]float64, len(effects))
	common := 5.0
	for range rounds {
		common += 0.1 * r.NormFloat64()
		for i, e := range effects {
			values[i] = append(values[i], common+e+0.01*r.NormFloat64())
		}
	}
	return values
}

func input(values [][]float64) odd.Input {
	in := odd.Input{Metrics: []odd.Metric{{Name: "latency", MoreIsSlow: true, Values: values}}}
	for i := range values {
		in.Nodes = append(in.Nodes, fmt.Sprint("node-", i))
	}
	return in
}

func verdicts(findings []odd.Finding) (list []odd.Verdict) {
	for _, f := range findings {
		list = append(list, f.Verdict)
	}
	return list
}

// TestSumOfRanks compares the null distribution with every possible outcome.
func TestSumOfRanks(t *testing.T) {
	for _, sizes := range [][]int{
		{}, {1}, {2}, {3, 3, 3}, {2, 3, 5}, {4, 4, 4, 4, 4}, {7, 1, 6, 2}, {3, 3, 3, 3, 3, 3, 3, 3},
	} {
		outcomes := []int{0}
		for _, n := range sizes {
			var next []int
			for _, sum := range outcomes {
				for rank := range n {
					next = append(next, sum+rank)
				}
			}
			outcomes = next
		}
		null := odd.SumOfRanks(sizes)
		for c := -1; c <= slices.Max(outcomes)+1; c++ {
			atMost := 0
			for _, sum := range outcomes {
				atMost += one(sum <= c)
			}
			if got, want := null(c), float64(atMost)/float64(len(outcomes)); math.Abs(got-want) > 1e-14 {
				t.Errorf("sizes %v: P(S ≤ %d) is %.16f, want %.16f", sizes, c, got, want)
			}
		}
	}
}

// Small chances must be as precise as large ones: 10 rounds of 5,000 nodes. The number of ways to have a sum of c
// without any rank at its end is that of c balls in 10 boxes.
func TestSumOfRanksFarOut(t *testing.T) {
	null := odd.SumOfRanks(slices.Repeat([]int{5000}, 10))
	for _, c := range []int{0, 1, 10, 1000, 4999} {
		want := math.Pow(5000, -10)
		for k := 1; k <= 10; k++ { // c+10 over 10
			want *= float64(c+k) / float64(k)
		}
		if got := null(c); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("P(S ≤ %d) is %g, want %g", c, got, want)
		}
	}
	if got := null(24995); math.Abs(got-0.5) > 1e-4 {
		t.Errorf("P(S ≤ the middle) is %g, want ½", got)
	}
}

// Where the distribution is no longer counted out, small chances may only become larger.
func TestSumOfRanksOfManyRounds(t *testing.T) {
	exact, approximate := odd.SumOfRanks(slices.Repeat([]int{20}, 50)), odd.SumOfRanks(slices.Repeat([]int{20}, 51))
	for _, z := range []float64{-5, -4, -3, -2, -1, 0} {
		at := func(rounds float64) int { return int(math.Round(rounds*9.5 + z*math.Sqrt(rounds*399/12))) }
		a, b := exact(at(50)), approximate(at(51))
		if b < 0.97*a || b > 3*a {
			t.Errorf("z = %g: %g in 50 rounds, %g in 51", z, a, b)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name    string
		effects []float64
		want    []odd.Verdict
		modes   [2][]int
	}{
		{"one of three is apart", []float64{0, 0.3, 0}, []odd.Verdict{odd.Ordinary, odd.Suspect, odd.Ordinary}, [2][]int{}},
		{"one of two is", []float64{0, 0.3}, []odd.Verdict{odd.Unclear, odd.Unclear}, [2][]int{}},
		{"one node", []float64{0}, []odd.Verdict{odd.NotMeasured}, [2][]int{}},
		{
			"two of four are",
			[]float64{0, 0.3, 0, 0.3},
			slices.Repeat([]odd.Verdict{odd.Unclear}, 4),
			[2][]int{{0, 2}, {1, 3}},
		},
		{
			"four of nine are",
			[]float64{0.3, 0, 0.3, 0, 0.3, 0, 0.3, 0, 0},
			slices.Repeat([]odd.Verdict{odd.Unclear}, 9),
			[2][]int{{1, 3, 5, 7, 8}, {0, 2, 4, 6}},
		},
		{
			"two of eight are, to both sides",
			[]float64{0.3, 0, 0, 0, -0.3, 0, 0, 0},
			[]odd.Verdict{
				odd.Suspect, odd.Ordinary, odd.Ordinary, odd.Ordinary, odd.Suspect, odd.Ordinary, odd.Ordinary, odd.Ordinary,
			},
			[2][]int{},
		},
	} {
		r := odd.Judge(input(calm(10, test.effects...)))
		if got := verdicts(r.Findings[0]); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if got := r.Groups[0][0].Modes; !reflect.DeepEqual(got, test.modes) {
			t.Errorf("%s: modes %v, want %v", test.name, got, test.modes)
		}
	}
}

// The p-value of a node that is above the other two in each of six rounds is 2/3⁶, for three nodes, in each metric.
// With a tie in one round, six outcomes more are as extreme; a tie that counted by half would leave only some of them.
func TestP(t *testing.T) {
	values := [][]float64{{9, 9, 9, 9, 9, 9}, {1, 2, 1, 2, 1, 2}, {2, 1, 2, 1, 2, 1}}
	in := input(values)
	in.Metrics = append(in.Metrics, in.Metrics[0])
	for _, test := range []struct {
		tie  float64
		want float64
	}{{1, 2.0 / 729 * 6}, {9, 2.0 / 729 * 7 * 6}} {
		values[1][2] = test.tie
		r := odd.Judge(in)
		if got := r.Findings[0][0].P; math.Abs(got-test.want) > 1e-12 {
			t.Errorf("with %g beside 9: P is %g, want %g", test.tie, got, test.want)
		}
	}
}

func TestSecondPass(t *testing.T) {
	for _, test := range []struct {
		name   string
		more   bool
		effect float64
		again  float64
		want   odd.Verdict
	}{
		{"a latency, more again", true, 0.3, 0.3, odd.Slow},
		{"a latency, less again", true, -0.3, -0.3, odd.Fast},
		{"a rate, less again", false, -0.3, -0.3, odd.Slow},
		{"ordinary again", true, 0.3, 0, odd.Unconfirmed},
		{"to the other side", true, 0.3, -0.3, odd.Unconfirmed},
		{"no second pass", true, 0.3, math.NaN(), odd.Suspect},
	} {
		in := input(calm(10, 0, 0, test.effect, 0, 0, 0, 0, 0))
		in.Metrics[0].MoreIsSlow = test.more
		first := odd.Judge(in)
		chosen := odd.Recheck(in, first, 3)
		if len(chosen) != 4 || !slices.Contains(chosen, 2) || !slices.IsSorted(chosen) {
			t.Errorf("%s: nodes %v are measured again, want node 2 and three others", test.name, chosen)
		}
		again := calm(5, 0, 0, test.again, 0, 0, 0, 0, 0)
		in.Metrics[0].Again = make([][]float64, len(again))
		for _, i := range chosen {
			in.Metrics[0].Again[i] = again[i]
		}
		if got := odd.Judge(in).Findings[0][2].Verdict; got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// A node is named in a wave of slow nodes as in one of ordinary ones, and those beside slow ones are not.
func TestWaves(t *testing.T) {
	effects := make([]float64, 40)
	for i := range 3 {
		effects[i] = 0.3
	}
	in := input(calm(10, effects...))
	waves := make([][]int, 10)
	r := rand.New(rand.NewPCG(4, 4))
	for round := range waves {
		waves[round] = make([]int, len(effects))
		for k, i := range r.Perm(len(effects)) {
			waves[round][i] = k / 8
			in.Metrics[0].Values[i][round] += 0.5 * float64(waves[round][i]) // what a wave has in common
		}
	}
	// One round has all slow nodes in one wave of six.
	for i := range effects {
		waves[9][i] = 1 + min(i/6, 4)
		in.Metrics[0].Values[i][9] = 2*float64(waves[9][i]) + effects[i]
	}
	in.Metrics[0].Waves = waves
	for i, f := range odd.Judge(in).Findings[0] {
		if got := f.Verdict == odd.Suspect; got != (i < 3) {
			t.Errorf("node %d of waves: %s, effect %.3f, P %.3g", i, f.Verdict, f.Effect, f.P)
		}
	}
}

// Nodes that go away change nothing for the others, and are judged by what they have.
func TestMissingRounds(t *testing.T) {
	values := calm(10, 0.3, 0, 0, 0, 0, 0, 0, 0, 0.3, 0)
	whole := odd.Judge(input(values))
	values[8] = values[8][:5]
	values[9] = values[9][:1]
	for j := 3; j < 10; j++ {
		values[7][j] = math.NaN()
	}
	r := odd.Judge(input(values))
	for i, f := range r.Findings[0] {
		want, rounds := whole.Findings[0][i].Verdict, 10
		switch i {
		case 7: // ten nodes in three rounds could be named, 2/10³·10 ≤ 5 %, but there is no interval
			want, rounds = odd.Unclear, 3
		case 8:
			rounds = 5
		case 9:
			want, rounds = odd.NotMeasured, 1
		}
		if f.Verdict != want || f.Rounds != rounds {
			t.Errorf("node %d: %s with %d rounds, want %s with %d", i, f.Verdict, f.Rounds, want, rounds)
		}
	}
	if r.Groups[0][0].Nodes != 10 {
		t.Errorf("%d nodes have values, want 10", r.Groups[0][0].Nodes)
	}
}

// Like is compared with like, and a small group beside a large one can still be told apart.
func TestGroups(t *testing.T) {
	effects := make([]float64, 300)
	for i := range effects {
		if i%100 == 7 { // the group of three
			effects[i] = 1
		}
	}
	effects[107] = 1.3
	in := input(calm(10, effects...))
	for i := range effects {
		group := "ordinary"
		if i%100 == 7 {
			group = "arm"
		}
		in.Groups = append(in.Groups, group)
	}
	r := odd.Judge(in)
	for i, f := range r.Findings[0] {
		if got := f.Verdict == odd.Suspect; got != (i == 107) {
			t.Errorf("node %d: %s, effect %.3f, P %.3g", i, f.Verdict, f.Effect, f.P)
		}
	}
	if g := r.Groups[0]; len(g) != 2 || g[0].Name != "arm" || g[0].Nodes != 3 || !g[0].Small || g[1].Small ||
		math.Abs(g[0].Limit-math.Log(1.05)) > 1e-12 {
		t.Errorf("groups %+v", g)
	}
}

// A node that varies more than the others is unsteady, and one with equal values everywhere is nothing.
func TestUnsteady(t *testing.T) {
	values := calm(10, make([]float64, 20)...)
	r := rand.New(rand.NewPCG(5, 5))
	for j := range values[3] {
		values[3][j] += 0.1 * r.NormFloat64()
	}
	for i, f := range odd.Judge(input(values)).Findings[0] {
		if (f.Verdict == odd.Unsteady) != (i == 3) {
			t.Errorf("node %d: %s, noise %.3f", i, f.Verdict, f.Noise)
		}
	}
}

// Values that are all the same name nobody: ties count against an effect.
func TestTies(t *testing.T) {
	values := make([][]float64, 10)
	for i := range values {
		values[i] = make([]float64, 10)
	}
	r := odd.Judge(input(values))
	for i, f := range r.Findings[0] {
		if f.Verdict != odd.Ordinary || f.P != 1 || f.Effect != 0 {
			t.Errorf("node %d of equals: %+v", i, f)
		}
	}
}

// Whatever comes in, nothing panics and no verdict is missing.
func TestHostileInput(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, in := range []odd.Input{
		{},
		{Nodes: []string{"a"}, Metrics: []odd.Metric{{}}},
		{Nodes: []string{"a", "b", "c"}, Groups: []string{"x"}, Metrics: []odd.Metric{{Values: [][]float64{nil, {1}}}}},
		{
			Nodes: []string{"a", "b", "c"}, Smallest: inf,
			Metrics: []odd.Metric{{Values: [][]float64{{nan, inf}, {-inf, 1e300}, {0, 0}, {1, 2}}, Waves: [][]int{{1}, nil}}},
		},
		{
			Nodes: []string{"a", "b", "c"}, Smallest: nan,
			Metrics: []odd.Metric{{
				Values: calm(10, 0, 0.5, 0), Waves: [][]int{{1, 1, 1}, {1, 2, 3}},
				Again: [][]float64{nil, {1, nan, 2, 3, 4, 5, 6}, {inf, 1, 1, 1}},
			}},
		},
	} {
		r := odd.Judge(in)
		for m := range in.Metrics {
			for i, f := range r.Findings[m] {
				if f.Verdict == "" || !(f.P >= 0 && f.P <= 1) {
					t.Errorf("%+v: node %d: %+v", in, i, f)
				}
			}
		}
		odd.Recheck(in, r, 1)
	}
}

// An unclear node says how many rounds it needs, and with so many it is clear.
func TestNeeds(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	values := make([][]float64, 4)
	measure := func(rounds int) []odd.Finding {
		for i := range values {
			for len(values[i]) < rounds {
				values[i] = append(values[i], 0.05*r.NormFloat64())
			}
		}
		return odd.Judge(input(values)).Findings[0]
	}
	most := 0
	for i, f := range measure(8) {
		if (f.Verdict == odd.Unclear) != (f.Needs > 8) {
			t.Errorf("node %d: %+v", i, f)
		}
		most = max(most, f.Needs)
	}
	if most == 0 {
		t.Fatal("no node is unclear: the test shows nothing")
	}
	for i, f := range measure(2 * most) {
		if f.Verdict != odd.Ordinary || f.Needs != 0 {
			t.Errorf("node %d in %d rounds: %+v", i, 2*most, f)
		}
	}
}

// BenchmarkJudge judges 5,000 nodes in ten rounds and six metrics.
func BenchmarkJudge(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 7))
	in := odd.Input{Nodes: make([]string, 5000)}
	for range 6 {
		values := make([][]float64, len(in.Nodes))
		for i := range values {
			for range 10 {
				values[i] = append(values[i], 0.03*r.NormFloat64())
			}
		}
		in.Metrics = append(in.Metrics, odd.Metric{Values: values})
	}
	b.ReportAllocs()
	for b.Loop() {
		odd.Judge(in)
	}
}

// With fewer rounds no node is measured, with so many each is.
func TestFewest(t *testing.T) {
	for nodes, want := range map[int]int{2: 0, 3: 5, 10: 3, 100: 2} {
		got := odd.Fewest(nodes)
		if got != want {
			t.Errorf("%d nodes: %d rounds, want %d", nodes, got, want)
		}
		for rounds := max(1, want-1); want > 0 && rounds <= want; rounds++ {
			all := odd.Judge(input(calm(rounds, make([]float64, nodes)...))).Findings[0]
			if measured := all[0].Verdict != odd.NotMeasured; measured != (rounds == want) {
				t.Errorf("%d nodes, %d rounds: measured: %v", nodes, rounds, measured)
			}
		}
	}
}
