package analysis_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// two is a run of two cells that differ by a factor, with one metric.
func two(factor float64, blocks int) *bench.Run {
	return analysistest.Run(analysistest.Shape{
		Seed: 3, Blocks: blocks, Metrics: analysistest.Lifecycle()[:1],
		Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: factor}},
	})
}

// TestLooks checks that a difference that one look can tell needs more blocks at the next.
func TestLooks(t *testing.T) {
	for _, tt := range []struct {
		sizes   []int
		verdict analysis.Verdict
	}{
		{[]int{5}, analysis.Unclear}, // 2/2^5 is above 4 %
		{[]int{6}, analysis.Worse},   // 2/2^6 is not
		{[]int{6, 10}, analysis.Unclear},
		{[]int{6, 11}, analysis.Worse}, // 2/2^11 is below 0.125 %
		{[]int{6, 7, 11}, analysis.Unclear},
		{[]int{6, 7, 12}, analysis.Worse},
	} {
		r := analyze(t, atLook(two(10, 12), tt.sizes))
		c := r.Metrics[0].Conditions[0].Cells[1].Comparison
		if c.Verdict != tt.verdict || r.Looks != len(tt.sizes) || r.LookLevel != bench.LookLevel(len(tt.sizes)) {
			t.Errorf("%v blocks: %s at look %d of %v, want %s", tt.sizes, c.Verdict, r.Looks, r.LookLevel, tt.verdict)
		}
		if c.Alpha != r.LookLevel || (c.Adjusted < c.Alpha) != (tt.verdict == analysis.Worse) {
			t.Errorf("%v blocks: adjusted p %v, compared with %v: %s", tt.sizes, c.Adjusted, c.Alpha, c.Verdict)
		}
		n := tt.sizes[len(tt.sizes)-1]
		_, need, _ := analysis.Decisive(r.Header.Plan, r.Header.Metrics, r.Looks)
		if enough := tt.verdict == analysis.Worse; (n >= need) != enough {
			t.Errorf("%v blocks: said to need %d", tt.sizes, need)
		}
		warned := slices.ContainsFunc(r.Warnings, func(w bench.Warning) bool {
			return w.Code == analysis.CodeFewBlocks && strings.Contains(w.Text, "can be significant")
		})
		if n >= 6 && warned != (tt.verdict == analysis.Unclear) {
			t.Errorf("%v blocks: warnings %v", tt.sizes, codes(r))
		}
	}
}

// TestInterruptionIsNoLook checks that a run that was only interrupted is looked at once.
func TestInterruptionIsNoLook(t *testing.T) {
	run := two(10, 6)
	run.Resumptions = []bench.Resumption{{Time: run.Header.Began, Tool: run.Header.Tool, Seq: 7, Host: run.Header.Host}}
	r := analyze(t, run)
	if c := r.Metrics[0].Conditions[0].Cells[1].Comparison; r.Looks != 1 || c.Verdict != analysis.Worse {
		t.Errorf("%s at look %d, want %s at 1", c.Verdict, r.Looks, analysis.Worse)
	}
}

// TestSameAtLooks checks that something can be the same at the first look and, by the same
// trials, not at the second: the interval that is shown stays that of 95 %.
func TestSameAtLooks(t *testing.T) {
	run := two(1, 60)
	first := analyze(t, atLook(run, []int{60}))
	c := first.Metrics[0].Conditions[0].Cells[1].Comparison
	narrow := max(c.High-1, 1/c.Low-1)
	for _, tt := range []struct {
		delta float64
		want  [2]analysis.Verdict
	}{
		{narrow * 1.001, [2]analysis.Verdict{analysis.Same, analysis.Unclear}},
		{narrow * 3, [2]analysis.Verdict{analysis.Same, analysis.Same}},
	} {
		run.Header.Plan.Smallest = tt.delta
		for i, sizes := range [][]int{{60}, {30, 60}} {
			got := analyze(t, atLook(run, sizes)).Metrics[0].Conditions[0].Cells[1].Comparison
			if got.Verdict != tt.want[i] || got.Low != c.Low || got.High != c.High {
				t.Errorf("±%.4f at look %d: %s [%v, %v], want %s [%v, %v]",
					tt.delta, i+1, got.Verdict, got.Low, got.High, tt.want[i], c.Low, c.High)
			}
			if got.Verdict == analysis.Unclear && got.Blocks <= 60 {
				t.Errorf("±%.4f at look %d: it takes %d blocks, want more than the 60 that there are", tt.delta, i+1, got.Blocks)
			}
		}
	}
}

// TestExtendedLimits checks that the limits of the extension take the place of the plan's.
func TestExtendedLimits(t *testing.T) {
	run := atLook(two(1, 12), []int{6, 12})
	if h := analyze(t, run).Header; h.Plan.MaxBlocks != 12 {
		t.Errorf("at most %d blocks, want those of the extension", h.Plan.MaxBlocks)
	}
}

// Nothing is claimed of a run that is under way: who watches it looks as often as it has blocks.
func TestRunningClaimsNothing(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{
		Seed: 12, Blocks: 40, Cells: []analysistest.Cell{
			{Name: "native"}, {Name: "same"}, {Name: "worse", Factor: 2}, {Name: "better", Factor: 0.5},
		},
	})
	run.End = nil
	want := []analysis.Verdict{"", analysis.Same, analysis.Worse, analysis.Better}
	for _, running := range []bool{false, true} {
		r, err := analysis.Analyze(run, analysis.Options{Running: running, Smallest: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		for i, cell := range r.Metrics[0].Conditions[0].Cells[1:] {
			want := want[i+1]
			if running {
				want = analysis.Unclear
			}
			if c := cell.Comparison; c.Verdict != want || !c.HasInterval {
				t.Errorf("under way: %v, %s: %+v, want %q with an interval", running, cell.Name, c, want)
			}
		}
		if doubted := slices.Contains(r.Trust.Codes, analysis.CodeRunning); doubted != running {
			t.Errorf("under way: %v, trust: %+v", running, r.Trust)
		}
		if none := len(r.Reasons) == 0; none != running {
			t.Errorf("under way: %v, reasons: %+v", running, r.Reasons)
		}
	}
}
