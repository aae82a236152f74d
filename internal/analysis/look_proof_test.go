package analysis_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// most is the count of n that chance exceeds with a probability of less than 1/1000 where
// the true rate is p: a quantile of the binomial distribution.
func most(n int, p float64) int {
	k, cdf := 0, 0.0
	for dist := (distuv.Binomial{N: float64(n), P: p}); ; k++ {
		if cdf += dist.Prob(float64(k)); cdf >= 0.999 {
			return k
		}
	}
}

// lookWeathers are the weathers that pairs feel, and one in which neighbouring trials, and so neighbouring
// blocks, are alike: nine parts in ten of a trial's noise are still there in the next one.
func lookWeathers() []noiseModel {
	at := 0.0
	autocorrelated := func(r *rand.Rand) float64 {
		at = 0.95*at + math.Sqrt(1-0.95*0.95)*0.03*r.NormFloat64()
		return at
	}
	return append(pairedNoiseModels(), noiseModel{"autocorrelated", autocorrelated, nil})
}

// atLook is the run as it was at a look: after so many blocks, the last of sizes, and
// looked at before after the others.
func atLook(run *bench.Run, sizes []int) *bench.Run {
	cells := len(run.Header.Plan.Cells)
	cut := *run
	cut.Samples, cut.Resumptions = run.Samples[:cells*sizes[len(sizes)-1]], nil
	for i, n := range sizes[:len(sizes)-1] {
		cut.Resumptions = append(cut.Resumptions, bench.Resumption{
			Time: run.Header.Began, Tool: run.Header.Tool, Seq: cells * n, Host: run.Header.Host,
			Extension: &bench.Extension{MaxBlocks: sizes[i+1], After: *run.End},
		})
	}
	return &cut
}

// A policy says how many blocks a run is extended to that has n and shows nothing yet;
// smallest is the smallest adjusted p-value, level what the next look may spend.
type policy struct {
	name string
	next func(n int, smallest, level float64) int
}

const (
	firstBlocks = 12  // at the first look
	mostBlocks  = 192 // at the last
	mostLooks   = 5
)

// policies are ways to go on. The last is the best one for who wants a claim at any price:
// it takes as many blocks as it needs if the difference stays what it looks like now.
func policies() []policy {
	normal := distuv.UnitNormal
	return []policy{
		{"half as much more", func(n int, _, _ float64) int { return n + n/2 }},
		{"twice as much", func(n int, _, _ float64) int { return 2 * n }},
		{"as much as it takes", func(n int, smallest, level float64) int {
			have, need := normal.Quantile(1-smallest/2), normal.Quantile(1-level/2)
			return min(max(n+1, int(math.Ceil(float64(n)*math.Pow(need/max(have, 0.1), 2)))), 4*n)
		}},
	}
}

// smallestP is the smallest adjusted p-value of the primary comparisons.
func smallestP(r *analysis.Result) float64 {
	smallest := 1.0
	for _, m := range r.Metrics {
		for _, c := range m.Conditions {
			for _, cell := range c.Cells {
				if m.Metric.Role == bench.Primary && cell.Comparison != nil {
					smallest = min(smallest, cell.Comparison.Adjusted)
				}
			}
		}
	}
	return smallest
}

// A lookedAt is a run with the smallest p-values that looks at it have shown, by how many blocks each
// had. Users who go on in different ways look at the same in part.
type lookedAt struct {
	run      *bench.Run
	smallest map[string]float64
}

// look is the smallest adjusted p-value after looks at so many blocks.
func (l *lookedAt) look(t *testing.T, sizes []int) float64 {
	t.Helper()
	key := fmt.Sprint(sizes)
	if p, ok := l.smallest[key]; ok {
		return p
	}
	r := analyze(t, atLook(l.run, sizes))
	if r.Looks != len(sizes) {
		t.Fatalf("look %d is taken for look %d", len(sizes), r.Looks)
	}
	l.smallest[key] = smallestP(r)
	return l.smallest[key]
}

// claimsAt is the look at which a user ends with a claim who extends a run exactly while
// nothing in it is significant; 0 where there is none after mostLooks. Level is what a look
// may spend.
func claimsAt(t *testing.T, run *lookedAt, p policy, level func(look int) float64) int {
	t.Helper()
	sizes := []int{firstBlocks}
	for look := 1; look <= mostLooks; look++ {
		smallest := run.look(t, sizes)
		if smallest < level(look) {
			return look
		}
		n := sizes[look-1]
		sizes = append(sizes, min(p.next(n, smallest, level(look+1)), mostBlocks))
		if sizes[look] <= n {
			return 0
		}
	}
	return 0
}

// Nothing differs, and a user extends the run while nothing is significant. With the rule
// at most 5 % of them end with a claim, however many looks they take; without it, many do.
func TestFalseAlarmsOverLooks(t *testing.T) {
	n := analysistest.Repetitions(25, 2000)
	bares := min(n, 500) // without the rule the share is so large that fewer show it
	t.Logf("%d runs each, 3 cells, 2 primary metrics, %d blocks and then more, at most %d;", n, firstBlocks, mostBlocks)
	t.Logf("share with a false claim after 1, 2, 3, 5 looks: with the rule | at 5 %% each time")
	for _, w := range lookWeathers() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			var ruled, bare [][]int // by policy
			for range policies() {
				ruled, bare = append(ruled, make([]int, mostLooks+1)), append(bare, make([]int, mostLooks+1))
			}
			for i := range n {
				s := fiveEqualCells(w, uint64(i+1), mostBlocks)
				s.Cells, s.Metrics = s.Cells[:3], s.Metrics[:2]
				run := &lookedAt{analysistest.Run(s), map[string]float64{}}
				for k, p := range policies() {
					ruled[k][claimsAt(t, run, p, bench.LookLevel)]++
					if i < bares {
						bare[k][claimsAt(t, run, p, func(int) float64 { return 0.05 })]++
					}
				}
			}
			for k, p := range policies() {
				t.Logf("%-20s %s | %s", p.name, shares(ruled[k], n), shares(bare[k], bares))
				atMost5(t, p.name, ruled[k], n)
				if claims := sum(bare[k][1:]); bares >= 500 && claims <= most(bares, 0.05) {
					t.Errorf("%s: %d of %d users without the rule: this user does not test it", p.name, claims, bares)
				}
			}
		})
	}
}

// atMost5 checks how many of n users had a false claim after some of their looks; counts
// has how many had it at which.
func atMost5(t *testing.T, who string, counts []int, n int) {
	t.Helper()
	for last := 1; last < len(counts); last++ {
		if k := sum(counts[1 : last+1]); k > most(n, 0.05) {
			t.Errorf("%s: %d of %d users have a false claim after %d looks, want at most 5 %%", who, k, n, last)
		}
	}
}

// shares says which share of n had a claim after 1, 2, 3 and 5 looks.
func shares(counts []int, n int) (text string) {
	for _, last := range []int{1, 2, 3, 5} {
		text += fmt.Sprintf(" %5.2f %%", 100*float64(sum(counts[1:last+1]))/float64(n))
	}
	return text
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// worstUser is the probability that somebody ends with a false claim of one comparison who
// may choose after each look, by all that was seen, after how many more blocks to look
// again, or whether at all. The test statistic is taken for normal, which it is but for few
// blocks. Then all that matters is z at the last look and how many times as many blocks the
// next one has, and the best choice is found from the last look backwards.
func worstUser(levels []float64) float64 {
	const step = 0.05
	normal := distuv.UnitNormal
	critical := func(look int) float64 { return normal.Quantile(1 - levels[look]/2) }
	highest := 0.0
	for look := range levels {
		highest = max(highest, critical(look))
	}
	grid := int(math.Ceil(highest/step)) + 1
	z := func(i int) float64 { return float64(i-grid) * step }
	value := make([]float64, 2*grid+1) // of a look that ended with z(i), for all looks behind it
	for look := len(levels) - 1; look > 0; look-- {
		before := make([]float64, len(value))
		c := critical(look)
		for i := grid; i < len(value); i++ {
			times := []float64{1.02, 1.05, 1.1, 1.2, 1.35, 1.6, 2, 3, 5, 10, 30, 100}
			if z(i) > 0 && z(i) < c {
				times = append(times, math.Pow(c/z(i), 2)) // best if this is the last look
			}
			for _, r := range times {
				mean, sd := z(i)/math.Sqrt(r), math.Sqrt((r-1)/r)
				p := normal.CDF((mean-c)/sd) + normal.CDF((-c-mean)/sd)
				p += expect(value, z, step, mean, sd, c) * (1 - p)
				before[i] = max(before[i], p)
			}
			before[2*grid-i] = before[i]
		}
		value = before
	}
	return levels[0] + expect(value, z, step, 0, 1, critical(0))*(1-levels[0])
}

// expect is the mean of a value over a normal z that is within ±c.
func expect(value []float64, z func(int) float64, step, mean, sd, c float64) float64 {
	var total, weight float64
	for i, v := range value {
		if at := z(i); math.Abs(at) < c {
			w := math.Exp(-math.Pow((at-mean)/sd, 2) / 2)
			total, weight = total+w*v, weight+w
		}
	}
	if weight < 1e-300 || sd < step { // between two points: the nearer one that is possible
		at := min(max(mean, -c+step), c-step)
		return value[min(max(int(math.Round(at/step))+len(value)/2, 0), len(value)-1)]
	}
	return total / weight
}

// Not even the worst user, who chooses each extension by what the last look showed, has a
// false claim in more than 5 % of families, in so many looks and comparisons as anybody
// takes. That is why the levels of the looks add up to less than 5 %.
func TestFalseAlarmsOfTheWorstUser(t *testing.T) {
	t.Logf("at most so many families of m comparisons have a false claim after 1, 2, 3, 5, 12 looks:")
	for _, m := range []int{1, 5, 20, 100, 1000} {
		var text strings.Builder
		for _, looks := range []int{1, 2, 3, 5, 12} {
			var levels []float64
			for look := range looks {
				levels = append(levels, bench.LookLevel(look+1)/float64(m))
			}
			p := float64(m) * worstUser(levels)
			text.WriteString(fmt.Sprintf(" %.2f %%", 100*p))
			if p > 0.05 {
				t.Errorf("%d comparisons, %d looks: %.4f", m, looks, p)
			}
		}
		t.Logf("m = %-5d%s", m, text.String())
	}
	if p := worstUser([]float64{0.05, 0.05}); p < 0.11 || p > 0.115 {
		t.Errorf("two looks at 5 %% each: %.4f, want 0.112 (Proschan and Hunsberger 1995)", p)
	}
}

// What differs by exactly δ is called the same by a user who extends until it is in at most
// 5 % of runs.
func TestFalseAlarmsOfSameOverLooks(t *testing.T) {
	n := analysistest.Repetitions(50, 2000)
	t.Logf("%d runs each, a true difference of δ = 4 %%; share that is called the same after 1, 2, 3, 5 looks:", n)
	for _, w := range lookWeathers() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			counts := make([]int, mostLooks+1)
			for i := range n {
				s := fiveEqualCells(w, uint64(i+1), mostBlocks)
				s.Cells, s.Metrics = s.Cells[:2], s.Metrics[:1]
				s.Cells[1].Factor = 1.04
				run := analysistest.Run(s)
				run.Header.Plan.Smallest = 0.04
				var sizes []int
				for look := 1; look <= mostLooks; look++ {
					sizes = append(sizes, firstBlocks<<(look-1))
					r := analyze(t, atLook(run, sizes))
					if r.Metrics[0].Conditions[0].Cells[1].Comparison.Verdict == analysis.Same {
						counts[look]++
						break
					}
				}
			}
			t.Logf("%s", shares(counts, n))
			atMost5(t, "same", counts, n)
		})
	}
}

// What the first look loses, because it leaves something for others, and what a second one
// finds.
func TestPowerOfLooks(t *testing.T) {
	n := analysistest.Repetitions(40, 2000)
	t.Logf("%d runs each, 3 cells, 2 primary metrics; a true difference in one of the cells is found:", n)
	for _, w := range pairedNoiseModels() { // where trials are alike, everything is found
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			t.Logf("%6s %6s | %8s %8s | %14s %14s", "effect", "blocks", "at 5 %", "at 4 %", "look 2 with 2n", "new run of 2n")
			for _, x := range []struct {
				blocks int
				factor float64
			}{{20, 1.03}, {20, 1.04}, {40, 1.02}, {40, 1.03}} {
				var five, first, second, fresh int
				for i := range n {
					s := fiveEqualCells(w, uint64(i+1), 2*x.blocks)
					s.Cells, s.Metrics = slices.Clone(s.Cells[:3]), s.Metrics[:2]
					s.Cells[1].Factor = x.factor
					whole := analysistest.Run(s)
					adjusted := func(sizes ...int) float64 {
						return analyze(t, atLook(whole, sizes)).Metrics[0].Conditions[0].Cells[1].Comparison.Adjusted
					}
					at1, at2 := adjusted(x.blocks), adjusted(x.blocks, 2*x.blocks)
					five += one(at1 < 0.05)
					first += one(at1 < bench.LookLevel(1))
					second += one(at1 < bench.LookLevel(1) || at2 < bench.LookLevel(2))
					fresh += one(at2 < bench.LookLevel(1))
				}
				share := func(k int) string { return fmt.Sprintf("%.1f %%", 100*float64(k)/float64(n)) }
				t.Logf("%6.2f %6d | %8s %8s | %14s %14s",
					x.factor, x.blocks, share(five), share(first), share(second), share(fresh))
				if lost := five - first; lost > most(n, 0.05) {
					t.Errorf("%v in %d blocks: the first look loses %d of %d, want at most 5 points", x.factor, x.blocks, lost, n)
				}
			}
		})
	}
}
