package analysis_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

// A runVariation is what a run does by itself: the standard deviations of the logarithms of
// two factors, one on all of its trials and one on the ratio of its two cells.
type runVariation struct{ values, ratio float64 }

func runVariations() []runVariation {
	return []runVariation{{0, 0}, {0.02, 0.005}, {0.05, 0.01}, {0.10, 0.02}}
}

// String writes both as shares.
func (h runVariation) String() string {
	return fmt.Sprintf("%g %% on values, %g %% on ratios", 100*h.values, 100*h.ratio)
}

// run makes a run of a baseline and a cell, of whose trials the cell's are slower by shift.
func (h runVariation) run(r *rand.Rand, side string, shift float64) *bench.Run {
	own, ratio := h.values*r.NormFloat64(), h.ratio*r.NormFloat64()
	run := analysistest.Run(analysistest.Shape{
		Seed: r.Uint64(), Blocks: 20, NoControl: true, Metrics: analysistest.Lifecycle()[:1],
		Cells: []analysistest.Cell{{Name: "native"}, {Name: "runc", Factor: 2 * math.Exp(ratio+shift)}},
		Block: func(*rand.Rand, int) float64 { return own },
	})
	run.Header.ID = fmt.Sprintf("%s-%x", side, r.Uint64())
	run.Header.Plan.Labels = []bench.Label{{Key: "side", Value: side}}
	return run
}

// compare makes runs of two sides, of which the second one's cell is slower by shift.
func (h runVariation) compare(t *testing.T, r *rand.Rand, each int, shift float64) (*analysis.Contrast, []*bench.Run) {
	t.Helper()
	var runs []*bench.Run
	for range each {
		runs = append(runs, h.run(r, "a", 0), h.run(r, "b", shift))
	}
	side := func(h *bench.Header) string { return h.Plan.Labels[0].Value }
	c, err := analysis.Compare(runs, analysis.CompareOptions{Group: side})
	if err != nil {
		t.Fatal(err)
	}
	return c, runs
}

// logValues are those of the values of one cell, by block.
func logValues(run *bench.Run, cell int) []float64 {
	var x []float64
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == cell {
			x = append(x, math.Log(s.Values[0]))
		}
	}
	return x
}

// comparePooled compares two runs as if each trial stood for itself, which is what tare did.
func comparePooled(a, b *bench.Run) stat.Interval {
	return stat.RankSum(logValues(b, 1), logValues(a, 1), 0.95).Interval
}

// compareInRunRatios compares the in-run ratios of two runs as if a run had no effect on them: the
// half-widths of both are all that there is to doubt.
func compareInRunRatios(a, b *bench.Run) stat.Interval {
	paired := func(run *bench.Run) stat.Paired {
		x, base := logValues(run, 1), logValues(run, 0)
		for i := range x {
			x[i] -= base[i]
		}
		return stat.SignedRank(x, 0.95)
	}
	pa, pb := paired(a), paired(b)
	at, half := pb.Estimate-pa.Estimate, math.Hypot(pa.Interval.HalfWidth(), pb.Interval.HalfWidth())
	return stat.Interval{Low: at - half, High: at + half}
}

// TestRunsCoverage compares runs between which nothing differs but what each does by
// itself, in every form that a comparison could have, and counts how often the 95 %
// interval of each holds the truth. From one run each, no form can: that is why there is
// none. With six each, those of values and of in-run ratios do, whatever a run does.
func TestRunsCoverage(t *testing.T) {
	n := analysistest.Repetitions(150, 4000)
	t.Logf("%d comparisons each; coverage of the interval (and its median half-width)", n)
	const line = "%-36s %18s %18s %18s %18s"
	t.Logf(line, "effect of a run", "1 run, trials", "1 run, ratios", "6 runs, values", "6 runs, ratios")
	for i, h := range runVariations() {
		r := rand.New(rand.NewPCG(uint64(i), 14))
		var covered [4]int
		var widths [4][]float64
		for range n {
			c, runs := h.compare(t, r, 6, 0)
			s := c.Metrics[0].Rows[1].Sides[1]
			for form, interval := range []stat.Interval{
				comparePooled(runs[0], runs[1]), compareInRunRatios(runs[0], runs[1]),
				logged(t, s.Comparison), logged(t, s.InRun.Comparison),
			} {
				covered[form] += one(interval.Contains(0))
				widths[form] = append(widths[form], interval.HalfWidth())
			}
		}
		var cells [4]any
		for form := range cells {
			cells[form] = fmt.Sprintf("%.1f %% (±%.1f %%)", share(covered[form], n), 100*stat.Median(widths[form]))
		}
		t.Logf(line, append([]any{h}, cells[:]...)...)
		for _, form := range []int{2, 3} {
			if n-covered[form] > limit(n, 0.05) {
				t.Errorf("%s: the interval of six runs each misses in %d of %d (form %d)", h, n-covered[form], n, form)
			}
		}
		holds := func(form int) bool { return n-covered[form] <= limit(n, 0.05) }
		if h.values > 0 && (holds(0) || h.ratio >= 0.01 && holds(1)) {
			t.Errorf("%s: one run each covers %d and %d of %d: it need not be refused a verdict", h, covered[0], covered[1], n)
		}
	}
}

// logged is an interval of a ratio on the scale of its logarithm.
func logged(t *testing.T, c *analysis.Comparison) stat.Interval {
	t.Helper()
	if c == nil || !c.HasInterval {
		t.Fatalf("no interval: %+v", c)
	}
	return stat.Interval{Low: math.Log(c.Low), High: math.Log(c.High)}
}

func share(k, n int) float64 { return 100 * float64(k) / float64(n) }

// TestRunsFalseAlarms counts the comparisons in which anything at all is said to differ
// between runs of the same: whatever a run does by itself, never from one run each, and
// after adjustment in at most one of twenty from six.
func TestRunsFalseAlarms(t *testing.T) {
	n := analysistest.Repetitions(100, 4000)
	t.Logf("%d comparisons each, 2 cells; those with any verdict (one run each) or any difference (six)", n)
	for i, h := range runVariations() {
		r := rand.New(rand.NewPCG(uint64(i), 15))
		var single, several int
		for range n {
			alone, _ := h.compare(t, r, 1, 0)
			single += one(anyVerdict(alone, func(v analysis.Verdict) bool { return v != analysis.TooFewRuns }))
			six, _ := h.compare(t, r, 6, 0)
			differs := func(v analysis.Verdict) bool { return v == analysis.Worse || v == analysis.Better }
			several += one(anyVerdict(six, differs))
		}
		t.Logf("%-36s one run each %.1f %%, six %.1f %%", h, share(single, n), share(several, n))
		if single > 0 || several > limit(n, 0.05) {
			t.Errorf("%s: %d verdicts from one run each, differences in %d of %d from six", h, single, several, n)
		}
	}
}

// anyVerdict reports whether any comparison has such a verdict.
func anyVerdict(c *analysis.Contrast, such func(analysis.Verdict) bool) bool {
	for _, m := range c.Metrics {
		for _, row := range m.Rows {
			for _, v := range []analysis.Values{row.Sides[1].Values, row.Sides[1].InRun} {
				if v.Comparison != nil && such(v.Comparison.Verdict) {
					return true
				}
			}
		}
	}
	return false
}

// TestRunsPower plants +5 % in a cell of one side: what a run does to all of its trials
// hides it from the values, and not from the in-run ratios.
func TestRunsPower(t *testing.T) {
	n := analysistest.Repetitions(40, 2000)
	t.Logf("%d comparisons each of six runs a side, +5 %% in one cell; found by its values, and by its in-run ratio", n)
	for i, h := range runVariations() {
		r := rand.New(rand.NewPCG(uint64(i), 16))
		var values, ratios int
		for range n {
			c, _ := h.compare(t, r, 6, math.Log(1.05))
			s := c.Metrics[0].Rows[1].Sides[1]
			values += one(s.Comparison.Verdict == analysis.Worse)
			ratios += one(s.InRun.Comparison.Verdict == analysis.Worse)
		}
		t.Logf("%-36s %.1f %%, %.1f %%", h, share(values, n), share(ratios, n))
		if h.ratio <= 0.01 && ratios < n*95/100 {
			t.Errorf("%s: found in %d of %d by in-run ratios", h, ratios, n)
		}
	}
}
