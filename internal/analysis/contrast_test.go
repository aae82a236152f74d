package analysis_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// on makes a run on a host that is slower by a factor's logarithm.
func on(seed uint64, host string, shift float64) *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: seed + 100, Blocks: 30, Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 2}}, Metrics: analysistest.Lifecycle()[:3],
		Block: func(*rand.Rand, int) float64 { return shift },
	})
	run.Header.Host.Hostname, run.Header.Host.MachineID = host, host
	return run
}

func contrast(t *testing.T, runs ...*bench.Run) *analysis.Contrast {
	t.Helper()
	c, err := analysis.Compare(runs, analysis.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func contrastCodes(c *analysis.Contrast) []string {
	var out []string
	for _, w := range c.Warnings {
		out = append(out, w.Code)
	}
	return out
}

func TestCompareTwoRuns(t *testing.T) {
	b := on(2, "beta", 0.1)
	b.Header.Host.Kernel = "7.0.0"
	c := contrast(t, on(1, "alpha", 0), b)
	if c.ByRun || len(c.Groups) != 2 || len(c.Metrics) != 3 {
		t.Fatalf("by run %v, %d groups, %d metrics", c.ByRun, len(c.Groups), len(c.Metrics))
	}
	for _, r := range c.Metrics[0].Rows {
		s := r.Sides[1]
		if s.N != 30 || s.Comparison.Verdict != analysis.Worse || s.Comparison.Low > 1.105 || s.Comparison.High < 1.105 {
			t.Errorf("%s: %+v, want worse by 10.5 %%", r.Cell, s.Comparison)
		}
		if r.Sides[0].Comparison != nil || r.Smallest < 0.01 {
			t.Errorf("%s: the first side %+v, smallest %v", r.Cell, r.Sides[0].Comparison, r.Smallest)
		}
	}
	var differ []string
	for _, d := range c.Differ {
		differ = append(differ, d.What)
	}
	if !slices.Equal(differ, []string{"host", "kernel"}) {
		t.Errorf("what differs: %v", differ)
	}
	if got := contrastCodes(c); !slices.Equal(got, []string{analysis.CodeNotApart}) {
		t.Errorf("warnings %v", got)
	}
	if !strings.Contains(c.Warnings[0].Text, "kernel (6.18.44, 7.0.0)") {
		t.Errorf("%q does not name the kernels", c.Warnings[0].Text)
	}
}

// TestCompareMargins checks that each metric is judged by its own margin.
// What was asked for in cells that are compared is named where it differs, and nothing
// of cells that are only in one of the runs.
func TestCompareAsked(t *testing.T) {
	made := func(seed uint64, change func(cells []bench.Cell)) *bench.Run {
		run := on(seed, "alpha", 0)
		run.Header.Plan.Cells = slices.Clone(run.Header.Plan.Cells)
		for i := range run.Header.Plan.Cells {
			run.Header.Plan.Cells[i].Params = map[string]string{"size": "1KB", "tls": "no"}
		}
		change(run.Header.Plan.Cells)
		return run
	}
	same := made(1, func([]bench.Cell) {})
	other := made(2, func(cells []bench.Cell) {
		for i := range cells {
			cells[i].Params["tls"] = "yes"
			if cells[i].Name == "b" {
				cells[i].Params["new"] = "1"
				cells[i].Spec.Image, cells[i].Spec.Limits.Pids = "oci:x", 7
			}
		}
	})
	for _, tt := range []struct {
		b    *bench.Run
		want string
	}{
		{made(2, func([]bench.Cell) {}), ""},
		{made(2, func(cells []bench.Cell) { cells[1].Name, cells[1].Params = "c", nil }), ""},
		{other, `tls (no, yes); image (none, oci:x); limits (none, {"pids":7}); new (none, 1)`},
	} {
		var got []string
		for _, d := range contrast(t, same, tt.b).Differ {
			got = append(got, d.String())
		}
		if s := strings.Join(got, "; "); s != tt.want {
			t.Errorf("differ in %s, want %s", s, tt.want)
		}
	}
}

func TestCompareMargins(t *testing.T) {
	a := on(1, "alpha", 0)
	a.Header.Plan.Margins = []bench.Margin{{Metric: "total", Smallest: 0.3}}
	c := contrast(t, a, on(2, "beta", 0.1))
	for i, want := range []analysis.Verdict{analysis.Worse, analysis.Same} {
		m := c.Metrics[i]
		if got := m.Rows[0].Sides[1].Comparison.Verdict; got != want || (m.Asked == 0.3) != (want == analysis.Same) {
			t.Errorf("%s: %s within %v, asked %v; want %s", m.Metric.Name, got, m.Rows[0].Smallest, m.Asked, want)
		}
	}
}

// TestCompareHosts checks that runs of one host are not pooled.
func TestCompareHosts(t *testing.T) {
	var runs []*bench.Run
	for i := range uint64(8) {
		runs = append(runs, on(i, "alpha", 0.01*float64(i)), on(20+i, "beta", 0.2+0.01*float64(i)))
	}
	c := contrast(t, runs...)
	if !c.ByRun || len(c.Groups) != 2 || len(c.Groups[0].Runs) != 8 {
		t.Fatalf("by run %v, groups %+v", c.ByRun, c.Groups)
	}
	s := c.Metrics[0].Rows[0].Sides[1]
	if s.N != 8 || s.Comparison.Verdict != analysis.Worse || s.Comparison.Low > 1.221 || s.Comparison.High < 1.221 {
		t.Errorf("%d values, %+v", s.N, s.Comparison)
	}
	few := contrast(t, runs[:6]...)
	if got := contrastCodes(few); !slices.Contains(got, analysis.CodeFewRuns) || few.Metrics[0].Rows[0].Sides[1].Comparison.HasInterval {
		t.Errorf("three runs each: warnings %v", got)
	}
}

func TestCompareOneHost(t *testing.T) {
	c := contrast(t, on(1, "alpha", 0), on(2, "alpha", 0), on(3, "alpha", 0.1))
	if c.ByRun || len(c.Groups) != 3 || len(c.Metrics[0].Rows[0].Sides) != 3 {
		t.Errorf("by run %v, %d groups: each run should stand by itself", c.ByRun, len(c.Groups))
	}
}

func TestCompareRefused(t *testing.T) {
	rename := func(run *bench.Run) *bench.Run {
		for i := range run.Header.Plan.Cells {
			run.Header.Plan.Cells[i].Name += "!"
		}
		return run
	}
	if _, err := analysis.Compare([]*bench.Run{on(1, "a", 0)}, analysis.CompareOptions{}); err == nil {
		t.Error("one run was compared")
	}
	_, err := analysis.Compare([]*bench.Run{on(1, "a", 0), rename(on(2, "a", 0))}, analysis.CompareOptions{})
	if !errors.Is(err, analysis.ErrNothingInCommon) || !strings.Contains(err.Error(), "the cells a!, b!") {
		t.Errorf("%v, want what the runs have", err)
	}
	all := analysis.CompareOptions{Group: func(*bench.Header) string { return "all" }}
	if _, err := analysis.Compare([]*bench.Run{on(1, "a", 0), on(2, "b", 0)}, all); err == nil {
		t.Error("one group was compared")
	}
}

func TestCompareWarnings(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(b *bench.Run)
		want  string
	}{
		{"another cell", func(b *bench.Run) { b.Header.Plan.Cells[1].Name = "c" }, analysis.CodeOneSided},
		{"another unit", func(b *bench.Run) {
			b.Header.Metrics = slices.Clone(b.Header.Metrics)
			b.Header.Metrics[1].Unit = "1"
		}, analysis.CodeOtherMetrics},
		{"incomplete", func(b *bench.Run) { b.End = nil }, analysis.CodeIncomplete},
		{"failed", func(b *bench.Run) { b.Samples[5].Outcome, b.Samples[5].Values = bench.Failed, nil }, analysis.CodeFailed},
		{"unreliable", func(b *bench.Run) {
			for i := range b.Samples {
				if s := &b.Samples[i]; b.Header.Plan.Cells[s.Trial.Cell].Control {
					s.Values[1] *= 1.2
				}
			}
		}, analysis.CodeControl},
		{"few", func(b *bench.Run) { b.Samples = b.Samples[:3] }, analysis.CodeFewSamples},
		{"zero", func(b *bench.Run) { b.Samples[5].Values[0] = 0 }, analysis.CodeZero},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := on(2, "alpha", 0)
			tt.spoil(b)
			if got := contrastCodes(contrast(t, on(1, "alpha", 0), b)); !slices.Equal(got, []string{analysis.CodeNotApart, tt.want}) {
				t.Errorf("warnings %v, want %s", got, tt.want)
			}
		})
	}
}

// TestCompareFalseAlarms compares runs between which nothing differs.
func TestCompareFalseAlarms(t *testing.T) {
	n := repetitions(100, 4000)
	wrong := 0
	for i := range uint64(n) {
		found := 0
		for _, m := range contrast(t, on(2*i, "a", 0), on(2*i+1, "a", 0)).Metrics {
			for _, r := range m.Rows {
				if m.Metric.Role == bench.Primary {
					found = max(found, one(r.Sides[1].Comparison.Adjusted < 0.05))
				}
			}
		}
		wrong += found
	}
	t.Logf("a difference in %d of %d comparisons", wrong, n)
	if wrong > limit(n, 0.05) {
		t.Errorf("a difference in %d of %d comparisons of the same, want at most 5 %%", wrong, n)
	}
}
