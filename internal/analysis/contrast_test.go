package analysis_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// runOnHost makes a run on a host that is slower by a factor's logarithm.
func runOnHost(seed uint64, host string, shift float64) *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: seed + 100, Blocks: 30, Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 2}},
		Metrics: analysistest.Lifecycle()[:3],
		Block:   func(*rand.Rand, int) float64 { return shift },
	})
	run.Header.Host.Hostname, run.Header.Host.MachineID, run.Header.Host.BootID = host, host, ""
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

// One run each has a shift and no verdict: the run's own effect is in it.
func TestCompareTwoRuns(t *testing.T) {
	b := runOnHost(2, "beta", 0.1)
	b.Header.Host.Kernel = "7.0.0"
	c := contrast(t, runOnHost(1, "alpha", 0), b)
	if len(c.Groups) != 2 || len(c.Metrics) != 3 {
		t.Fatalf("%d groups, %d metrics", len(c.Groups), len(c.Metrics))
	}
	for _, m := range c.Metrics {
		for _, r := range m.Rows {
			if s := r.Sides[1]; s.N != 1 || s.Comparison.Verdict != analysis.TooFewRuns || s.Comparison.HasInterval {
				t.Errorf("%s: %d values, %+v; want no verdict and no interval", r.Cell, s.N, s.Comparison)
			}
			if r.Sides[0].Comparison != nil || r.Smallest <= 0 {
				t.Errorf("%s: the first side %+v, smallest %v", r.Cell, r.Sides[0].Comparison, r.Smallest)
			}
		}
	}
	rows := c.Metrics[0].Rows
	for _, r := range rows {
		s := r.Sides[1]
		if e := s.Comparison.Estimate; math.Abs(e-s.Value/r.Sides[0].Value) > 1e-9 || e < 1.08 || e > 1.13 {
			t.Errorf("%s: shift ×%v of medians %v and %v, want ×1.105", r.Cell, e, r.Sides[0].Value, s.Value)
		}
	}
	if in := rows[0].Sides[1].InRun; rows[0].Baseline != "" || in.N != 0 || in.Comparison != nil {
		t.Errorf("the baseline against itself: %+v", in)
	}
	in := rows[1].Sides[1].InRun
	if rows[1].Baseline != "a" || math.Abs(in.Value-2) > 0.1 ||
		math.Abs(in.Comparison.Estimate-1) > 0.05 || in.Comparison.Verdict != analysis.TooFewRuns {
		t.Errorf("b against %q of its run: %v, %+v; want ×2 in both, and no verdict",
			rows[1].Baseline, in.Value, in.Comparison)
	}
	var differ []string
	for _, d := range c.Differ {
		differ = append(differ, d.What)
	}
	if !slices.Equal(differ, []string{"host", "kernel"}) {
		t.Errorf("what differs: %v", differ)
	}
	if got := contrastCodes(c); !slices.Equal(got, []string{analysis.CodeNotApart, analysis.CodeFewRuns}) {
		t.Errorf("warnings %v", got)
	}
	// 2 in 252, 6 comparisons
	if w := c.Warnings[1]; !strings.Contains(w.Text, "one run each") || !strings.Contains(w.Text, "5 runs of each") {
		t.Errorf("%q does not say how many runs could", w.Text)
	}
	if !strings.Contains(c.Warnings[0].Text, "kernel (6.18.44, 7.0.0)") {
		t.Errorf("%q does not name the kernels", c.Warnings[0].Text)
	}
}

// What was asked for in cells that are compared is named where it differs, and nothing
// of cells that are only in one of the runs.
func TestCompareAsked(t *testing.T) {
	made := func(seed uint64, change func(cells []bench.Cell)) *bench.Run {
		run := runOnHost(seed, "alpha", 0)
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
	turned := made(2, func([]bench.Cell) {})
	turned.Header.Plan.Slice = 20 * time.Millisecond
	for _, tt := range []struct {
		b    *bench.Run
		want string
	}{
		{turned, "turns (none, 20ms)"},
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

// Settings of an engine are named where they differ, and not those of an engine that only one of the runs has.
func TestCompareEngineSettings(t *testing.T) {
	made := func(seed uint64, engines ...bench.EngineInfo) *bench.Run {
		run := runOnHost(seed, "alpha", 0)
		run.Header.Engines = engines
		return run
	}
	docker := func(facts ...bench.Label) bench.EngineInfo {
		return bench.EngineInfo{Name: "docker", Version: "28.0", Facts: facts}
	}
	a := made(1, docker(bench.Label{Key: "storage", Value: "overlay2"}, bench.Label{Key: "log", Value: "json-file"}))
	b := made(2, docker(bench.Label{Key: "storage", Value: "vfs"}, bench.Label{Key: "log", Value: "json-file"},
		bench.Label{Key: "rootless", Value: "true"}), bench.EngineInfo{Name: "podman", Version: "5.4"})
	var got []string
	for _, d := range contrast(t, a, b).Differ {
		got = append(got, d.String())
	}
	if s := strings.Join(got, "; "); s != "docker storage (overlay2, vfs); docker rootless (none, true)" {
		t.Errorf("differ in %s", s)
	}
}

// Of three groups, it is told which has what; not where one group has several values.
func TestCompareTellsGroups(t *testing.T) {
	var runs []*bench.Run
	for i, kernel := range []string{"6.1", "6.12", "6.1", "6.12"} {
		r := runOnHost(uint64(i+1), []string{"alpha", "beta", "gamma", "gamma"}[i], 0)
		r.Header.Host.Kernel, r.Header.Host.OS = kernel, []string{"Debian", "Ubuntu", "Debian", "Debian"}[i]
		runs = append(runs, r)
	}
	c, err := analysis.Compare(runs, analysis.CompareOptions{
		Group: func(h *bench.Header) string { return h.Host.Hostname },
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range c.Differ {
		if d.What == "kernel" || d.What == "system" {
			got = append(got, d.String())
		}
	}
	want := []string{"kernel (6.1, 6.12)", "system (alpha, gamma: Debian; beta: Ubuntu)"}
	if !slices.Equal(got, want) {
		t.Errorf("differ in %q, want %q", got, want)
	}
}

// Programs that made something are named where they differ, whichever trial says it, and not where one of the runs has
// none.
func TestCompareMakers(t *testing.T) {
	made := func(seed uint64, applied bench.Applied) *bench.Run {
		run := runOnHost(seed, "alpha", 0)
		for i := range run.Samples {
			if run.Samples[i].Trial.Block > 0 && run.Samples[i].Trial.Cell == 1 {
				run.Samples[i].Applied = &applied
			}
		}
		return run
	}
	old := bench.Applied{Builder: "classic", Maker: "docker-compose 1.29.2"}
	for _, tt := range []struct {
		applied bench.Applied
		want    string
	}{
		{old, ""},
		{bench.Applied{Builder: "classic"}, ""},
		{
			bench.Applied{Builder: "buildx 0.12", Maker: "docker compose 2.24"},
			"build program (classic, buildx 0.12); compose program (docker-compose 1.29.2, docker compose 2.24)",
		},
	} {
		var got []string
		for _, d := range contrast(t, made(1, old), made(2, tt.applied)).Differ {
			got = append(got, d.String())
		}
		if s := strings.Join(got, "; "); s != tt.want {
			t.Errorf("differ in %q, want %q", s, tt.want)
		}
	}
}

// What another program did not write down of its machine is not said to differ.
func TestCompareUnknownFacts(t *testing.T) {
	own, theirs := runOnHost(1, "alpha", 0), runOnHost(2, "alpha", 0)
	own.Header.Host.CPUs, own.Header.Host.Memory, own.Header.Host.Privileged = 2, 1<<30, true
	own.Header.Engines = []bench.EngineInfo{{Name: "docker", Version: "28.0"}}
	theirs.Header.MeasuredBy, theirs.Header.Host = "hostsuite", bench.HostFacts{Kernel: "6.1"}
	theirs.Header.Engines = []bench.EngineInfo{{Name: "docker"}}
	var got []string
	for _, d := range contrast(t, own, theirs).Differ {
		got = append(got, d.String())
	}
	if want := []string{"kernel (" + own.Header.Host.Kernel + ", 6.1)"}; !slices.Equal(got, want) {
		t.Errorf("differ in %q, want %q", got, want)
	}
}

// What failed is told with its run, its host, the part and the reason.
func TestComparePartsFailed(t *testing.T) {
	b := runOnHost(2, "beta", 0)
	b.Header.Joint = &bench.Joint{ID: "j", Host: "web2", Hosts: []string{"web1", "web2"}}
	failed := func(part, why string) bench.PartOutcome {
		return bench.PartOutcome{Part: part, Outcome: bench.Failed, Reason: why}
	}
	b.Samples[5].Parts = []bench.PartOutcome{failed("build", "no space")}
	told := func() string {
		for _, w := range contrast(t, runOnHost(1, "alpha", 0), b).Warnings {
			if w.Code == analysis.CodePartFailed {
				return w.Text
			}
		}
		return ""
	}
	of := "run " + b.Header.ID + " on host web2"
	if got, want := told(), "part build failed in 1 trial of "+of+" and has no value there: no space"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.Samples[6].Parts = []bench.PartOutcome{failed("build", "no space"), failed("compose", "no daemon")}
	want := "parts failed in 2 trials of " + of + " and have no value there: build, compose; the first, build: no space"
	if got := told(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Runs of different experiments differ in nearly every option: one sentence says so.
func TestCompareExperiments(t *testing.T) {
	for _, tt := range []struct {
		name, workload, want string
	}{
		{"quick", "survey", "lifecycle, quick"},
		{"lifecycle", "survey", "lifecycle, survey"},
	} {
		other := runOnHost(2, "alpha", 0)
		other.Header.Plan.Name, other.Header.Plan.Workload = tt.name, tt.workload
		for i := range other.Header.Plan.Cells {
			other.Header.Plan.Cells[i].Params = map[string]string{"size": "1KB", "tls": "no"}
		}
		c := contrast(t, runOnHost(1, "alpha", 0), other)
		if len(c.Differ) != 1 || c.Differ[0].String() != "experiment ("+tt.want+")" {
			t.Errorf("differ in %v, want the experiment alone", c.Differ)
		}
		if c.Trust.Needed != 0 || slices.ContainsFunc(c.Warnings, func(w bench.Warning) bool {
			return w.Code == analysis.CodeFewRuns
		}) {
			t.Errorf("more runs of other experiments are said to help: %+v", c.Warnings)
		}
		w := c.Warnings[0]
		if w.Code != analysis.CodeOtherExperiment || !strings.Contains(w.Text, "different experiments ("+tt.want+")") {
			t.Errorf("%s: %q", w.Code, w.Text)
		}
	}
}

// alternatingRuns makes runs of two hosts in turn.
func alternatingRuns(each int, shift float64) []*bench.Run {
	var runs []*bench.Run
	for i := range uint64(each) {
		runs = append(runs, runOnHost(i, "alpha", 0.001*float64(i)), runOnHost(20+i, "beta", shift+0.001*float64(i)))
	}
	return runs
}

// TestCompareMargins checks that each metric is judged by its own margin.
func TestCompareMargins(t *testing.T) {
	runs := alternatingRuns(6, 0.1)
	runs[0].Header.Plan.Margins = []bench.Margin{{Metric: "total", Smallest: 0.3}}
	c := contrast(t, runs...)
	for i, want := range []analysis.Verdict{analysis.Worse, analysis.Same} {
		m := c.Metrics[i]
		if got := m.Rows[0].Sides[1].Comparison.Verdict; got != want || (m.Asked == 0.3) != (want == analysis.Same) {
			t.Errorf("%s: %s within %v, asked %v; want %s", m.Metric.Name, got, m.Rows[0].Smallest, m.Asked, want)
		}
	}
}

// TestCompareHosts checks that a run is one value, and how many it takes: four of each
// host for an interval, and as many as the comparisons ask for to find a difference.
func TestCompareHosts(t *testing.T) {
	runs := alternatingRuns(8, 0.2)
	c := contrast(t, runs...)
	if len(c.Groups) != 2 || len(c.Groups[0].Runs) != 8 {
		t.Fatalf("groups %+v", c.Groups)
	}
	for _, r := range c.Metrics[0].Rows {
		s := r.Sides[1]
		if s.N != 8 || s.Comparison.Verdict != analysis.Worse || s.Comparison.Low > 1.221 || s.Comparison.High < 1.221 {
			t.Errorf("%s: %d values, %+v; want slower by 22 %%", r.Cell, s.N, s.Comparison)
		}
		in := s.InRun
		if r.Baseline != "" && (in.N != 8 || in.Comparison.Verdict == analysis.Worse ||
			math.Abs(in.Comparison.Estimate-1) > 0.02) {
			t.Errorf("%s in its runs: %d values, %+v; want nothing that differs", r.Cell, in.N, in.Comparison)
		}
	}
	for each, want := range map[int]struct {
		interval bool
		code     string
	}{
		3: {false, analysis.CodeFewRuns}, 4: {true, analysis.CodeFewRuns}, 5: {true, ""}, // of 6 comparisons
	} {
		few := contrast(t, runs[:2*each]...)
		got := few.Metrics[0].Rows[0].Sides[1].Comparison
		if got.HasInterval != want.interval ||
			slices.Contains(contrastCodes(few), analysis.CodeFewRuns) != (want.code != "") ||
			(got.Verdict == analysis.Worse) != (each >= 5) {
			t.Errorf("%d runs each: %+v, warnings %v", each, got, contrastCodes(few))
		}
	}
}

// Nothing is claimed while one of the compared runs is under way; afterwards the same runs differ,
// or are the same.
func TestCompareRunningClaimsNothing(t *testing.T) {
	runs := alternatingRuns(8, 0.2)
	runs[5].End = nil
	for _, running := range []bool{false, true} {
		c, err := analysis.Compare(runs, analysis.CompareOptions{
			Smallest: 0.1, Running: func(h *bench.Header) bool { return running && h.ID == runs[5].Header.ID },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Metrics[0].Rows {
			want, wantIn := analysis.Worse, analysis.Same
			if running {
				want, wantIn = analysis.Unclear, analysis.Unclear
			}
			s := r.Sides[1]
			if s.Comparison.Verdict != want || !s.Comparison.HasInterval {
				t.Errorf("under way: %v, %s: %+v, want %q with an interval", running, r.Cell, s.Comparison, want)
			}
			if in := s.InRun.Comparison; r.Baseline != "" && in.Verdict != wantIn {
				t.Errorf("under way: %v, %s in its runs: %+v, want %q", running, r.Cell, in, wantIn)
			}
		}
		if got := slices.Contains(contrastCodes(c), analysis.CodeRunning); got != running {
			t.Errorf("under way: %v, warnings %v", running, contrastCodes(c))
		}
	}
}

// Runs that did not take turns differ by the hour as well.
func TestCompareTurns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hours []int // of a run of each group in turn
		want  bool
	}{
		{"in turn", []int{0, 1, 2, 3}, false},
		{"one after the other", []int{0, 5, 1, 6}, true},
		{"the other way round", []int{5, 0, 6, 1}, true},
	} {
		runs := alternatingRuns(2, 0)
		for i, h := range tt.hours {
			runs[i].Header.Began = analysistest.Epoch().Add(time.Duration(h) * time.Hour)
		}
		if got := slices.Contains(contrastCodes(contrast(t, runs...)), analysis.CodeNotInTurn); got != tt.want {
			t.Errorf("%s: warned %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := contrastCodes(contrast(t, alternatingRuns(1, 0)...)); slices.Contains(got, analysis.CodeNotInTurn) {
		t.Errorf("one run each: %v", got)
	}
}

func TestCompareOneHost(t *testing.T) {
	c := contrast(t, runOnHost(1, "alpha", 0), runOnHost(2, "alpha", 0), runOnHost(3, "alpha", 0.1))
	if len(c.Groups) != 3 || len(c.Metrics[0].Rows[0].Sides) != 3 {
		t.Errorf("%d groups: each run should stand by itself", len(c.Groups))
	}
}

func TestCompareRefused(t *testing.T) {
	rename := func(run *bench.Run) *bench.Run {
		for i := range run.Header.Plan.Cells {
			run.Header.Plan.Cells[i].Name += "!"
		}
		return run
	}
	if _, err := analysis.Compare([]*bench.Run{runOnHost(1, "a", 0)}, analysis.CompareOptions{}); err == nil {
		t.Error("one run was compared")
	}
	_, err := analysis.Compare([]*bench.Run{runOnHost(1, "a", 0), rename(runOnHost(2, "a", 0))}, analysis.CompareOptions{})
	if !errors.Is(err, analysis.ErrNothingInCommon) || !strings.Contains(err.Error(), "the cells a!, b!") {
		t.Errorf("%v, want what the runs have", err)
	}
	all := analysis.CompareOptions{Group: func(*bench.Header) string { return "all" }}
	if _, err := analysis.Compare([]*bench.Run{runOnHost(1, "a", 0), runOnHost(2, "b", 0)}, all); err == nil {
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
		{"part failed", func(b *bench.Run) {
			b.Samples[5].Parts = []bench.PartOutcome{{Part: "build", Outcome: bench.Failed, Reason: "no space"}}
		}, analysis.CodePartFailed},
		{"unreliable", func(b *bench.Run) {
			for i := range b.Samples {
				if s := &b.Samples[i]; b.Header.Plan.Cells[s.Trial.Cell].Control {
					s.Values[1] *= 1.2
				}
			}
		}, analysis.CodeControl},
		{"zero", func(b *bench.Run) {
			for i := range b.Samples {
				b.Samples[i].Values[0] = 0
			}
		}, analysis.CodeZero},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := runOnHost(2, "alpha", 0)
			tt.spoil(b)
			if got := contrastCodes(contrast(t, runOnHost(1, "alpha", 0),
				b)); !slices.Equal(got, []string{analysis.CodeNotApart, analysis.CodeFewRuns, tt.want}) {
				t.Errorf("warnings %v, want %s", got, tt.want)
			}
		})
	}
}
