package stat_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

// These tests prove what the product says of its numbers, by simulation with
// fixed seeds. With TARE_PROOFS=1 they repeat each experiment 20,000 times
// and print their tables; without, often enough to notice a mistake.
//
//	TARE_PROOFS=1 go test -v ./internal/analysis/stat

// proofs reports whether the long form was asked for.
func proofs() bool { return os.Getenv("TARE_PROOFS") == "1" }

func repetitions() int {
	if proofs() {
		return 20_000
	}
	return 1500
}

// sizes are the numbers of blocks. The smallest have so few levels to offer
// that their intervals are conservative; only the long form spends time there.
func sizes() []int {
	if proofs() {
		return []int{6, 7, 8, 9, 10, 20, 60}
	}
	return []int{10, 20, 60}
}

const confidence = 0.95

// effect is the true difference in every experiment that has one.
const effect = 0.7

// coverage is how often intervals held the truth, against the level that they
// said they achieve.
type coverage struct {
	covered, trials int
	level           float64
}

func (c *coverage) add(i stat.Interval, truth float64) {
	c.trials++
	c.level = i.Level
	if i.Contains(truth) {
		c.covered++
	}
}

func (c *coverage) rate() float64 { return float64(c.covered) / float64(c.trials) }

func (c *coverage) String() string {
	return fmt.Sprintf("%.1f %% (%.1f)", 100*c.rate(), 100*c.level)
}

// check demands 93 to 97 % of an interval of 95 %. Where a discrete test has
// only a higher level to offer, coverage may be as high, and must not be more
// than 2 points lower. Simulation may err by three standard errors.
func (c *coverage) check(t *testing.T, what string) {
	t.Helper()
	if c.level < confidence-1e-3 {
		t.Errorf("%s: the achieved level is %.4f, below what was asked for", what, c.level)
	}
	low, high := max(0.93, c.level-0.02), max(0.97, c.level)
	slack := 3 * standardError(c.level, c.trials)
	if c.rate() < low-slack || c.rate() > high+slack {
		t.Errorf("%s: coverage %v, want %.1f to %.1f %%", what, c, 100*low, 100*high)
	}
}

func standardError(p float64, n int) float64 { return math.Sqrt(p * (1 - p) / float64(n)) }

// A table is printed in the long form.
type table struct {
	title  string
	header []any
	rows   [][]any
}

func (tb *table) add(row ...any) { tb.rows = append(tb.rows, row) }

func (tb *table) log(t *testing.T) {
	t.Helper()
	if !proofs() {
		return
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range append([][]any{tb.header}, tb.rows...) {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = fmt.Sprint(c)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // into memory: cannot fail
	}
	_ = w.Flush() // as above
	t.Logf("%s\n%s", tb.title, b.String())
}

// A coverageProof runs try for every noise and number of blocks.
type coverageProof struct {
	title  string
	noises []Noise
	// claimed is false where the interval is known not to hold, and the table
	// is printed as a warning.
	claimed bool
	try     func(r *rand.Rand, noise Noise, n int) (i stat.Interval, truth float64)
}

func (p coverageProof) run(t *testing.T) {
	t.Helper()
	if !p.claimed && !proofs() {
		return
	}
	tb := table{title: p.title + ": coverage (achieved level), nominal 95 %", header: []any{"noise"}}
	for _, n := range sizes() {
		tb.header = append(tb.header, fmt.Sprintf("n=%d", n))
	}
	for seed, noise := range p.noises {
		row := []any{noise.Name}
		for _, n := range sizes() {
			c := p.measure(seeded(uint64(1000*seed+n)), noise, n)
			if p.claimed {
				c.check(t, fmt.Sprintf("%s, n=%d", noise.Name, n))
			}
			row = append(row, c)
		}
		tb.add(row...)
	}
	tb.log(t)
}

func (p coverageProof) measure(r *rand.Rand, noise Noise, n int) *coverage {
	var c coverage
	for range repetitions() {
		c.add(p.try(r, noise, n))
	}
	return &c
}

// filter returns the noises whose Independent is as given.
func filter(independent bool) []Noise {
	var some []Noise
	for _, noise := range All() {
		if noise.Independent == independent {
			some = append(some, noise)
		}
	}
	return some
}

// block runs n blocks of a baseline, a cell with the effect, and two others.
func block(r *rand.Rand, noise Noise, n int) (baseline, cell []float64) {
	order := RandomBlocks(r, 4, n)
	values := order.Measure(noise.Series(r, len(order)), []float64{0, effect, 0, 0})
	return values[0], values[1]
}

// In random blocks, which of two cells came first is a coin toss. Whatever the
// noise did, the difference could as well have had the other sign: the
// signed-rank test needs no more, so its interval holds over drift and
// correlation in time too. This is the claim of the design.
func TestPairedCoverage(t *testing.T) {
	coverageProof{
		"Paired, signed-rank, random blocks", All(), true,
		func(r *rand.Rand, noise Noise, n int) (stat.Interval, float64) {
			baseline, cell := block(r, noise, n)
			return stat.SignedRank(Differences(cell, baseline), confidence).Interval, effect
		},
	}.run(t)
}

func TestUnpairedCoverage(t *testing.T) {
	try := func(r *rand.Rand, noise Noise, n int) (stat.Interval, float64) {
		order := OneAfterAnother(2, n)
		values := order.Measure(noise.Series(r, len(order)), []float64{0, effect})
		return stat.RankSum(values[1], values[0], confidence).Interval, effect
	}
	coverageProof{"Unpaired, rank-sum, independent samples", filter(true), true, try}.run(t)
	coverageProof{"Unpaired, one after the other over noise in time, NOT CLAIMED", filter(false), false, try}.run(t)
}

func TestMedianCoverage(t *testing.T) {
	try := func(r *rand.Rand, noise Noise, n int) (stat.Interval, float64) {
		i, _ := stat.MedianInterval(noise.Series(r, n), confidence)
		return i, 0
	}
	coverageProof{"Median of one cell, order statistics", filter(true), true, try}.run(t)
	coverageProof{"Median of one cell over noise in time, NOT CLAIMED", filter(false), false, try}.run(t)
}

// Stopping as soon as the interval is narrow enough peeks at the data, if not
// at the effect. From 10 blocks on, and after 3 narrow ones in a row, the cost
// must be small.
func TestCoverageWhenStoppingOnPrecision(t *testing.T) {
	const first, last, inARow = 10, 60, 3
	tb := table{
		title:  "Paired, stopped on precision between 10 and 60 blocks",
		header: []any{"noise", "half-width asked for", "coverage", "median blocks"},
	}
	for seed, noise := range All() {
		for _, target := range []float64{1, 0.6} {
			r := seeded(uint64(seed))
			var c coverage
			var stops []float64
			for range repetitions() / 5 {
				baseline, cell := block(r, noise, last)
				d := Differences(cell, baseline)
				i, n := stopOnPrecision(d, first, inARow, target)
				stops = append(stops, float64(n))
				c.add(i, effect)
			}
			if slack := 3 * standardError(confidence, c.trials); c.rate() < 0.93-slack || c.rate() > 0.97+slack {
				t.Errorf("%s, ±%v: coverage %.3f, want 0.93 to 0.97", noise.Name, target, c.rate())
			}
			tb.add(noise.Name, target, fmt.Sprintf("%.1f %%", 100*c.rate()), stat.Median(stops))
		}
	}
	tb.log(t)
}

// stopOnPrecision returns the interval with which a run of these differences
// stops, and after how many.
func stopOnPrecision(d []float64, first, inARow int, target float64) (i stat.Interval, n int) {
	narrow := 0
	for n = first; n <= len(d); n++ {
		i = stat.SignedRank(d[:n], confidence).Interval
		if i.HalfWidth() > target {
			narrow = 0
		} else if narrow++; narrow == inARow {
			return i, n
		}
	}
	return i, len(d)
}

// tPower is a power of the paired t-test at 5 %, from the noncentral t
// distribution, as testdata/reference.R computed it.
type tPower struct {
	N         int
	SD, Power float64 // SD is that of the differences of logarithms
}

func textbookPower(t *testing.T, n int, sd float64) float64 {
	t.Helper()
	b, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference struct {
		Powers []tPower `json:"paired_t_power"`
	}
	if err := json.Unmarshal(b, &reference); err != nil {
		t.Fatalf("testdata/reference.json: %v", err)
	}
	for _, p := range reference.Powers {
		if p.N == n && p.SD == sd {
			return p.Power
		}
	}
	t.Fatalf("testdata/reference.json has no power for n=%d sd=%v", n, sd)
	return 0
}

// A true +5 % must be found at least as often as by the paired t-test with
// 0.95 times the blocks: the asymptotic relative efficiency of the signed-rank
// test is 3/π = 0.955 for normal noise, and higher for heavier tails. For
// normal noise the t-test's power is the textbook's.
func TestPower(t *testing.T) {
	tb := table{title: "A true +5 % is found (t-test with 0.95 n pairs)", header: []any{"noise"}}
	runs := []struct {
		n  int
		sd float64 // of the differences, were the noise normal
	}{{10, 0.1}, {10, 0.05}, {20, 0.07}, {60, 0.1}}
	for _, run := range runs {
		tb.header = append(tb.header, fmt.Sprintf("n=%d sd=%v", run.n, run.sd))
	}
	for seed, noise := range All() {
		row := []any{noise.Name}
		for _, run := range runs {
			fewer := run.n * 95 / 100
			found, byT := power(noise, uint64(seed), run.n, fewer, math.Log(1.05)/(run.sd/math.Sqrt2))
			if noise.Name == Normal().Name {
				textbook := textbookPower(t, fewer, run.sd)
				if math.Abs(byT-textbook) > 4*standardError(textbook, repetitions()) {
					t.Errorf("n=%d: the t-test finds %.3f, the textbook says %.3f: the simulation is wrong", fewer, byT, textbook)
				}
				byT = textbook
			}
			if slack := 3 * math.Sqrt2 * standardError(byT, repetitions()); found < byT-slack {
				t.Errorf("%s, n=%d: found %.3f, the t-test with %d pairs %.3f", noise.Name, run.n, found, fewer, byT)
			}
			row = append(row, fmt.Sprintf("%.1f %% (%.1f)", 100*found, 100*byT))
		}
		tb.add(row...)
	}
	tb.log(t)
}

// power returns how often a shift is found in n random blocks by the
// signed-rank test, and in the first few of them by the paired t-test.
func power(noise Noise, seed uint64, n, fewer int, shift float64) (found, byT float64) {
	r := seeded(seed)
	for range repetitions() {
		order := RandomBlocks(r, 2, n)
		values := order.Measure(noise.Series(r, len(order)), []float64{0, shift})
		d := Differences(values[1], values[0])
		if stat.SignedRank(d, confidence).P <= 1-confidence {
			found++
		}
		if pairedT(d[:fewer]) <= 1-confidence {
			byT++
		}
	}
	return found / float64(repetitions()), byT / float64(repetitions())
}

// A whole A/A run, four cells against one baseline on three metrics, must
// claim a difference anywhere in at most 5 % of runs. Beside it the old way:
// one cell after the other, and Welch's t for each.
func TestFalseAlarms(t *testing.T) {
	tb := table{
		title: "A/A runs of 4 cells × 3 metrics × 20 blocks that claim any difference",
		header: []any{
			"noise", "random blocks, signed-rank, Holm", "one after the other, Welch, Holm", "the same without Holm",
		},
	}
	for seed, noise := range All() {
		r := seeded(uint64(seed))
		runs := repetitions() / 2
		var ours, welch, bare float64
		for range runs {
			if claims(stat.Holm(ourTests(r, noise))) {
				ours++
			}
			p := oldTests(r, noise)
			if claims(stat.Holm(p)) {
				welch++
			}
			if claims(p) {
				bare++
			}
		}
		n := float64(runs)
		if ours/n > 1-confidence+3*standardError(confidence, runs) {
			t.Errorf("%s: %.4f of runs claim a difference that is not there", noise.Name, ours/n)
		}
		if !noise.Independent && welch/n < 0.5 {
			t.Errorf("%s: the old way errs in %.3f of runs only: this noise does not test the design", noise.Name, welch/n)
		}
		tb.add(noise.Name, percent(ours/n), percent(welch/n), percent(bare/n))
	}
	tb.log(t)
}

const (
	cells   = 5 // the baseline is one of them
	metrics = 3
	blocks  = 20
)

func ourTests(r *rand.Rand, noise Noise) (p []float64) {
	order := RandomBlocks(r, cells, blocks)
	for range metrics {
		values := order.Measure(noise.Series(r, len(order)), make([]float64, cells))
		for _, cell := range values[1:] {
			p = append(p, stat.SignedRank(Differences(cell, values[0]), confidence).P)
		}
	}
	return p
}

func oldTests(r *rand.Rand, noise Noise) (p []float64) {
	order := OneAfterAnother(cells, blocks)
	for range metrics {
		values := order.Measure(noise.Series(r, len(order)), make([]float64, cells))
		for _, cell := range values[1:] {
			p = append(p, welch(cell, values[0]))
		}
	}
	return p
}

func claims(p []float64) bool {
	for _, v := range p {
		if v <= 1-confidence {
			return true
		}
	}
	return false
}

func percent(rate float64) string { return fmt.Sprintf("%.1f %%", 100*rate) }

// pairedT returns the two-sided p-value of Student's paired t-test.
func pairedT(d []float64) float64 {
	mean, variance := moments(d)
	n := float64(len(d))
	return twoSided(mean/math.Sqrt(variance/n), n-1)
}

// welch returns the two-sided p-value of Welch's t-test.
func welch(x, y []float64) float64 {
	mx, vx := moments(x)
	my, vy := moments(y)
	a, b := vx/float64(len(x)), vy/float64(len(y))
	df := (a + b) * (a + b) / (a*a/float64(len(x)-1) + b*b/float64(len(y)-1))
	return twoSided((mx-my)/math.Sqrt(a+b), df)
}

func twoSided(t, df float64) float64 {
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.CDF(-math.Abs(t))
}

func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, variance
}
