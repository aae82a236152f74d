package odd_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/fleet/odd"
)

// These tests simulate whole fleets with fixed seeds: all nodes share a random walk of 10 % from round to round, and
// each node differs honestly from the others by a normal effect. With TARE_PROOFS=1 they simulate many fleets, also
// of 1,000 nodes, and print their tables; without, enough to notice a mistake.

// confirm is the number of rounds of the second pass.
const confirm = 5

// A model is how fleets are simulated.
type model struct {
	nodes, rounds int
	honest        float64 // the standard deviation between nodes
	noise         noise
	plants        []float64 // ratios, of the first nodes
	metrics       int       // 0 = 1; the others have no plants
}

type noise struct {
	name string
	draw func(r *rand.Rand) float64
}

func noises() []noise {
	const sd = 0.03
	return []noise{
		{"normal", func(r *rand.Rand) float64 { return sd * r.NormFloat64() }},
		{"t3", func(r *rand.Rand) float64 { // with the same standard deviation
			square := 0.0
			for range 3 {
				z := r.NormFloat64()
				square += z * z
			}
			return sd * r.NormFloat64() / math.Sqrt(square)
		}},
		{"5 % contaminated", func(r *rand.Rand) float64 {
			if r.Float64() < 0.05 {
				return 10 * sd * r.NormFloat64()
			}
			return sd * r.NormFloat64()
		}},
	}
}

func (m model) String() string {
	return fmt.Sprintf("N %4d, R %2d, nodes differ by %.0f %%, %-16s", m.nodes, m.rounds, 100*m.honest, m.noise.name)
}

// A simulated fleet knows the truth.
type simulated struct {
	model
	random *rand.Rand
	truths [][]float64 // by metric and node
	input  odd.Input
}

func (m model) simulate(r *rand.Rand) *simulated {
	s := &simulated{model: m, random: r}
	all := make([]int, m.nodes)
	for i := range all {
		all[i] = i
		s.input.Nodes = append(s.input.Nodes, fmt.Sprint("node-", i))
	}
	for k := range max(1, m.metrics) {
		truth := make([]float64, m.nodes)
		for i := range truth {
			truth[i] = m.honest * r.NormFloat64()
			if k == 0 && i < len(m.plants) {
				truth[i] += math.Log1p(m.plants[i])
			}
		}
		center := stat.Median(truth[len(m.plants):])
		for i := range truth {
			truth[i] -= center
		}
		s.truths = append(s.truths, truth)
		s.input.Metrics = append(s.input.Metrics, odd.Metric{
			Name: fmt.Sprint("latency", k), MoreIsSlow: true, Values: s.measure(k, all, m.rounds),
		})
	}
	return s
}

// measure returns values of some nodes in a metric, by node and round.
func (s *simulated) measure(metric int, nodes []int, rounds int) [][]float64 {
	values := make([][]float64, len(s.input.Nodes))
	common := 0.0
	for range rounds {
		common += 0.1 * s.random.NormFloat64()
		for _, i := range nodes {
			values[i] = append(values[i], s.truths[metric][i]+common+s.noise.draw(s.random))
		}
	}
	return values
}

// judge judges the first pass, and both passes.
func (s *simulated) judge() (first, both odd.Result) {
	first = odd.Judge(s.input)
	chosen := odd.Recheck(s.input, first, s.random.Uint64())
	if len(chosen) == 0 {
		return first, first
	}
	for k := range s.input.Metrics {
		s.input.Metrics[k].Again = s.measure(k, chosen, confirm)
	}
	return first, odd.Judge(s.input)
}

func proofs() bool { return os.Getenv("TARE_PROOFS") != "" }

// fleets is how many are simulated of a size.
func fleets(nodes int) int {
	proof := min(2000, 40_000/nodes)
	if nodes >= 1000 {
		proof = 60
	}
	return analysistest.Repetitions(max(10, 400/nodes), proof)
}

// everyModel calls f for each size, number of rounds, spread of nodes, and noise.
func everyModel(f func(m model, seed uint64)) {
	sizes, rounds := []int{3, 8, 20, 100}, []int{10}
	if proofs() {
		sizes, rounds = append(sizes, 1000), []int{6, 10}
	}
	seed := uint64(0)
	for _, n := range sizes {
		for _, rounds := range rounds {
			for _, honest := range []float64{0, 0.01} {
				for _, noise := range noises() {
					seed++
					f(model{nodes: n, rounds: rounds, honest: honest, noise: noise}, seed)
				}
			}
		}
	}
}

// atMost is how often something with a probability of p may happen in n tries: three standard errors more than p.
func atMost(n int, p float64) int {
	return int(math.Ceil(float64(n)*p + 3.1*math.Sqrt(float64(n)*p*(1-p))))
}

func percent(k, n int) float64 { return 100 * float64(k) / float64(n) }

func count(r odd.Result, some ...odd.Verdict) (n int) {
	for _, findings := range r.Findings {
		for _, f := range findings {
			if slices.Contains(some, f.Verdict) {
				n++
			}
		}
	}
	return n
}

// TestFalseAlarmsOfFleet judges fleets without anything odd, in one metric and in four: in at most 5 % of them may
// any node be named, for being odd or unsteady, or may the nodes be said to be of two kinds.
func TestFalseAlarmsOfFleet(t *testing.T) {
	everyModel(func(m model, seed uint64) {
		for _, m.metrics = range []int{1, 4} {
			r := rand.New(rand.NewPCG(seed, 22))
			var suspected, named, unsteady, kinds, any int
			n := fleets(m.nodes)
			if m.nodes == 1000 {
				n *= 3 // 60 would tell little
			}
			for range n {
				first, both := m.simulate(r).judge()
				two := slices.ContainsFunc(both.Groups, func(g []odd.Group) bool { return g[0].Modes[0] != nil })
				suspected += one(count(first, odd.Suspect) > 0)
				named += one(count(both, odd.Slow, odd.Fast) > 0)
				unsteady += one(count(both, odd.Unsteady) > 0)
				kinds += one(two)
				any += one(two || count(both, odd.Slow, odd.Fast, odd.Unsteady) > 0)
			}
			t.Logf("%v, %d metrics: suspected %4.1f %%, named %4.1f %%, unsteady %4.1f %%, two kinds %4.1f %%, any %4.1f %%", m,
				m.metrics, percent(suspected, n), percent(named, n), percent(unsteady, n), percent(kinds, n), percent(any, n))
			if any > atMost(n, 0.05) {
				t.Errorf("%v, %d metrics: in %d of %d fleets without anything odd a node is named", m, m.metrics, any, n)
			}
		}
	})
}

// TestCoverageOfNodes counts how often the interval of a node holds its effect, in fleets without and with a node
// that is 20 % slower.
func TestCoverageOfNodes(t *testing.T) {
	for _, plants := range [][]float64{nil, {0.2}} {
		if plants == nil && !proofs() {
			continue // few of the nodes beside one that is 20 % slower are other than without it
		}
		everyModel(func(m model, seed uint64) {
			m.plants = plants
			r := rand.New(rand.NewPCG(seed, 23))
			var c, planted coverage
			for range fleets(m.nodes) {
				s := m.simulate(r)
				for i, f := range odd.Judge(s.input).Findings[0] {
					if i < len(plants) {
						planted.add(f, s.truths[0][i])
						continue
					}
					c.add(f, s.truths[0][i])
				}
			}
			t.Logf("%v: coverage %.1f %%, of the %d planted %.1f %%", m, c.rate(), len(plants), planted.rate())
			c.check(t, m, "the ordinary nodes")
			planted.check(t, m, "the planted node")
		})
	}
}

type coverage struct{ covered, tries int }

func (c *coverage) add(f odd.Finding, truth float64) {
	if !math.IsNaN(f.Low) {
		c.tries++
		c.covered += one(f.Low <= truth && truth <= f.High)
	}
}

func (c *coverage) rate() float64 { return percent(c.covered, max(c.tries, 1)) }

func (c *coverage) check(t *testing.T, m model, what string) {
	t.Helper()
	if missed := c.tries - c.covered; missed > atMost(c.tries, 0.07) {
		t.Errorf("%v: of the intervals of %s, %d of %d miss", m, what, missed, c.tries)
	}
}

// TestPowerOfFleet counts how many of the planted nodes are found: one, or one of a hundred.
func TestPowerOfFleet(t *testing.T) {
	plants := []float64{0.05, 0.1, 0.2}
	if !proofs() {
		plants = []float64{0.1, 0.2}
	}
	for _, plant := range plants {
		everyModel(func(m model, seed uint64) {
			m.plants = slices.Repeat([]float64{plant}, max(1, m.nodes/100))
			r := rand.New(rand.NewPCG(seed, 24))
			var suspected, named, wrong int
			n := fleets(m.nodes)
			for range n {
				first, both := m.simulate(r).judge()
				for i := range m.plants {
					suspected += one(first.Findings[0][i].Verdict == odd.Suspect)
					named += one(both.Findings[0][i].Verdict == odd.Slow)
				}
				others := odd.Result{Findings: [][]odd.Finding{both.Findings[0][len(m.plants):]}}
				wrong += one(count(others, odd.Slow, odd.Fast, odd.Unsteady) > 0)
			}
			all := n * len(m.plants)
			t.Logf("%v, +%2.0f %%: suspected %5.1f %%, named %5.1f %%; others named in %.1f %% of fleets",
				m, 100*plant, percent(suspected, all), percent(named, all), percent(wrong, n))
			if all-suspected > atMost(all, 1-leastFound(m, plant)) {
				t.Errorf("%v: only %d of %d nodes that are %.0f %% slower are suspected", m, suspected, all, 100*plant)
			}
			if plant == 0.2 && m.rounds >= 10 && all-named > atMost(all, 0.05) {
				t.Errorf("%v: only %d of %d nodes that are %.0f %% slower are named", m, named, all, 100*plant)
			}
			if wrong > atMost(n, 0.05) {
				t.Errorf("%v, +%.0f %%: in %d of %d fleets another node is named", m, 100*plant, wrong, n)
			}
		})
	}
}

// TestOthersBesideOneFar judges small fleets with much noise, in which one node is four times as slow: how far that one is
// says nothing of the others, so no other may be suspected in more than 5 % of fleets.
func TestOthersBesideOneFar(t *testing.T) {
	for _, nodes := range []int{3, 4, 5, 8} {
		for _, sd := range []float64{0.03, 0.1} {
			m := model{nodes: nodes, rounds: 8, plants: []float64{3}, metrics: 2}
			m.noise = noise{fmt.Sprintf("normal %.0f %%", 100*sd), func(r *rand.Rand) float64 { return sd * r.NormFloat64() }}
			r := rand.New(rand.NewPCG(uint64(nodes), 28))
			found, wrong, n := 0, 0, analysistest.Repetitions(400, 4000)
			for range n {
				findings := odd.Judge(m.simulate(r).input).Findings
				found += one(findings[0][0].Verdict == odd.Suspect)
				others := odd.Result{Findings: [][]odd.Finding{findings[0][1:], findings[1]}}
				wrong += one(count(others, odd.Suspect) > 0)
				for _, f := range findings[0][1:] {
					if nodes == 3 && f.Needs > 0 && math.Abs(f.Effect) > math.Log1p(0.05) {
						t.Errorf("with %d rounds it would be clear which one of two is odd: %+v", f.Needs, f)
					}
				}
			}
			t.Logf("%v: found in %.1f %% of fleets, others suspected in %.1f %%", m, percent(found, n), percent(wrong, n))
			if wrong > atMost(n, 0.05) || n-found > atMost(n, 0.01) {
				t.Errorf("%v: found in %d of %d fleets, others suspected in %d", m, found, n, wrong)
			}
		}
	}
}

// leastFound is the least share of planted nodes that the first pass must find, as it was when this was designed: the
// worst of all noises.
func leastFound(m model, plant float64) float64 {
	shares := map[[2]int][3]float64{
		{8, 6}: {0.08, 0.52, 0.92}, {20, 6}: {0.20, 0.78, 0.94}, {20, 10}: {0.33, 0.96, 1}, {100, 6}: {0.19, 0.87, 0.94},
		{100, 10}: {0.32, 0.98, 0.99}, {1000, 10}: {0.20, 0.97, 1},
	}[[2]int{m.nodes, m.rounds}]
	return max(0, shares[map[float64]int{0.05: 0, 0.1: 1, 0.2: 2}[plant]]-0.02) // that were of 400 fleets themselves
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestPowerOfUnsteady counts how often a node is found whose noise is five or ten times that of the others.
func TestPowerOfUnsteady(t *testing.T) {
	for _, nodes := range []int{3, 8, 20, 100} {
		for _, times := range []float64{5, 10} {
			m := model{nodes: nodes, rounds: 10, honest: 0.01, noise: noises()[0]}
			r := rand.New(rand.NewPCG(uint64(nodes), 26))
			found, n := 0, fleets(nodes)
			for range n {
				s := m.simulate(r)
				for j := range s.input.Metrics[0].Values[0] {
					s.input.Metrics[0].Values[0][j] += math.Sqrt(times*times-1) * m.noise.draw(r)
				}
				found += one(odd.Judge(s.input).Findings[0][0].Verdict == odd.Unsteady)
			}
			t.Logf("%v, noise times %2.0f: found %.1f %%", m, times, percent(found, n))
			if nodes >= 20 && times == 10 && n-found > atMost(n, 0.4) {
				t.Errorf("%v: only %d of %d unsteady nodes are found", m, found, n)
			}
		}
	}
}

// TestFalseAlarmsOfKinds judges fleets whose nodes honestly differ by 5 %, so much more than the limit: few may be
// said to be of two kinds. TestPowerOfKinds has two kinds.
func TestFalseAlarmsOfKinds(t *testing.T) { kindsFound(t, 0.05, 0, 0, 0.05) }

func TestPowerOfKinds(t *testing.T) { kindsFound(t, 0.01, 0.2, 0.9, 1) }

func kindsFound(t *testing.T, honest, plant, least, most float64) {
	t.Helper()
	for _, nodes := range []int{8, 9, 12, 20, 100} {
		m := model{nodes: nodes, rounds: 10, honest: honest, noise: noises()[0]}
		if plant > 0 {
			m.plants = slices.Repeat([]float64{plant}, (2*nodes+4)/5)
		}
		r := rand.New(rand.NewPCG(uint64(nodes), 27))
		found, n := 0, fleets(nodes)
		for range n {
			found += one(odd.Judge(m.simulate(r).input).Groups[0][0].Modes[0] != nil)
		}
		t.Logf("%v, %d of them +%.0f %%: two kinds in %.1f %%", m, len(m.plants), 100*plant, percent(found, n))
		if found > atMost(n, most) || n-found > atMost(n, 1-least) {
			t.Errorf("%v: two kinds in %d of %d fleets", m, found, n)
		}
	}
}

// TestCoverageOfExtremes simulates the factors of the Limit: among alike normal nodes, one is beyond the factor times
// the spread in 5 % of fleets, whatever the number of metrics.
func TestCoverageOfExtremes(t *testing.T) {
	n := 4000
	counts := []int{8, 9, 14, 20, 70}
	if proofs() {
		n = 40_000
		counts = append(counts, 10, 11, 12, 13, 15, 17, 25, 40, 50, 100, 150, 300, 500, 1000, 3000, 10_000)
	}
	r := rand.New(rand.NewPCG(25, 25))
	for _, nodes := range counts {
		tries := min(n, 40_000_000/nodes)
		var outermost []float64
		x := make([]float64, nodes)
		for range tries {
			for i := range x {
				x[i] = r.NormFloat64()
			}
			center, most := stat.Median(x), 0.0
			for _, v := range x {
				most = max(most, math.Abs(v-center))
			}
			outermost = append(outermost, most/odd.Spread(x))
		}
		for _, metrics := range []int{1, 6} {
			beyond := 0
			for _, z := range outermost {
				beyond += one(z > odd.Largest(nodes, metrics))
			}
			any := 1 - math.Pow(1-float64(beyond)/float64(tries), float64(metrics))
			t.Logf("%5d nodes, %d metrics: factor %.2f, in one metric the 95 %% point is %.2f; any is beyond in %.2f %%",
				nodes, metrics, odd.Largest(nodes, metrics), stat.Quantile(outermost, 0.95), 100*any)
			one := 0.05 / float64(metrics)
			if math.Abs(any-0.05) > 0.006+3.1*float64(metrics)*math.Sqrt(one*(1-one)/float64(tries)) {
				t.Errorf("%d nodes, %d metrics: the factor %.2f is exceeded in %.2f %% of fleets, want 5 %%",
					nodes, metrics, odd.Largest(nodes, metrics), 100*any)
			}
		}
	}
}
