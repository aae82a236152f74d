package analysis_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// steadyRun is a run as it should be.
func steadyRun(blocks int) analysistest.Shape {
	return analysistest.Shape{Seed: 8821, Blocks: blocks, Warmup: 1, Cells: []analysistest.Cell{
		{Name: "native"}, {Name: "floor", Factor: 2.67}, {Name: "crun", Factor: 6.53}, {Name: "runc", Factor: 17.4}, {Name: "docker", Factor: 174},
	}}
}

// declared are the notes of a workload, two of them of one choice.
func declared() []bench.Note {
	differ := &bench.Note{Code: "ways-differ", Text: "not all went the same way ({ways})", Advice: "choose one"}
	return []bench.Note{
		{
			Code: "slowed", Text: "the client of {cells} waited", Advice: "wait for nothing", Metric: "total",
			Doubt: "the client was too slow",
		},
		{Code: "by-road", Text: "{cells} went by road", Advice: "say road", Choice: "road", MixedChoices: differ},
		{Code: "by-air", Text: "{cells} flew", Advice: "say air", Choice: "air", MixedChoices: differ},
	}
}

func analyze(t *testing.T, run *bench.Run) *analysis.Result {
	t.Helper()
	r, err := analysis.Analyze(run, analysis.Options{Notes: declared()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func codes(r *analysis.Result) []string {
	var out []string
	for _, w := range r.Warnings {
		out = append(out, w.Code)
	}
	return out
}

func TestAnalyze(t *testing.T) {
	r := analyze(t, analysistest.Run(steadyRun(40)))
	if r.Blocks != 40 || r.Trials != (analysis.Trials{OK: 240, Warmup: 6}) {
		t.Errorf("%d blocks, trials %+v; want 40 and 240 successful ones after 6 of warm-up", r.Blocks, r.Trials)
	}
	if len(r.Warnings) > 0 {
		t.Errorf("a clean run has warnings: %+v", r.Warnings)
	}
	if len(r.Metrics) != 6 {
		t.Fatalf("%d metrics, want 2 primary and 4 details", len(r.Metrics))
	}
	c := r.Metrics[0].Conditions[0]
	if c.Noise == nil || !c.Noise.HasInterval || c.Unreliable || c.Smallest < 0.01 {
		t.Errorf("noise %+v, unreliable %v, smallest %v", c.Noise, c.Unreliable, c.Smallest)
	}
	for i, want := range []float64{1, 2.67, 6.53, 17.4, 174} {
		cell := c.Cells[i]
		if i == 0 {
			if cell.Comparison != nil {
				t.Error("the baseline is compared with itself")
			}
			continue
		}
		v := cell.Comparison
		if v.Low > want || v.High < want || v.Verdict != analysis.Worse || v.Pairs != 40 || v.Level < 0.95 ||
			v.Adjusted < v.P {
			t.Errorf("%s: %+v, want an interval around %v", cell.Name, v, want)
		}
	}
	if len(r.Reasons) == 0 || r.Reasons[0].Cell != 1 {
		t.Errorf("reasons %+v", r.Reasons)
	}
}

func TestAnalyzeIsPureAndDeterministic(t *testing.T) {
	run, same := analysistest.Run(steadyRun(20)), analysistest.Run(steadyRun(20))
	first := analyze(t, run)
	if d := cmp.Diff(same, run, cmpopts.EquateNaNs()); d != "" {
		t.Errorf("the run was changed: %s", d)
	}
	for range 10 {
		if d := cmp.Diff(first, analyze(t, run), cmpopts.EquateNaNs()); d != "" {
			t.Fatalf("the second analysis differs: %s", d)
		}
	}
}

// TestPairs checks what is paired with what by a run without noise.
func TestPairs(t *testing.T) {
	quiet := steadyRun(12)
	quiet.Noise = func(*rand.Rand) float64 { return 0 }
	run := analysistest.Run(quiet)
	for i := range run.Samples {
		s := &run.Samples[i]
		switch b := s.Trial.Block; {
		case b < 0: // never looked at
			s.Values[0] *= 1e6
		case b == 3 && s.Trial.Cell == 0: // takes every pair of the block with it
			*s = bench.Sample{Trial: s.Trial, Began: s.Began, Outcome: bench.Failed, Operation: "start", Reason: "no"}
		case b == 4 && s.Trial.Cell == 2: // takes one pair
			*s = bench.Sample{Trial: s.Trial, Began: s.Began, Outcome: bench.TimedOut}
		case b == 5 && s.Trial.Cell == 1: // has one metric less
			s.Values[0] = math.NaN()
		case b > 5: // what all have in common cancels out
			for m := range s.Values {
				s.Values[m] *= float64(b)
			}
		}
	}
	r := analyze(t, run)
	c := r.Metrics[0].Conditions[0]
	want := map[string][3]int{
		"native": {0, 11, 1}, "floor": {10, 11, 0}, "crun": {10, 11, 1}, "runc": {11, 12, 0}, "docker": {11, 12, 0},
	}
	for _, cell := range c.Cells {
		got := [3]int{0, cell.N, cell.Failed}
		if cell.Comparison != nil {
			got[0] = cell.Comparison.Pairs
		}
		if got != want[cell.Name] {
			t.Errorf("%s: pairs, values, failed = %v, want %v", cell.Name, got, want[cell.Name])
		}
	}
	if got := c.Cells[1].Comparison.Estimate; math.Abs(got-2.67) > 1e-9 {
		t.Errorf("estimate %v, want 2.67: the machine's change does not matter", got)
	}
	wantFailures := []analysis.Failure{
		{Cell: 0, Outcome: bench.Failed, Operation: "start", Count: 1, Reason: "no"},
		{Cell: 2, Outcome: bench.TimedOut, Count: 1},
	}
	if d := cmp.Diff(wantFailures, r.Failures); d != "" {
		t.Error(d)
	}
	if !slices.Contains(codes(r), analysis.CodeFailed) {
		t.Errorf("warnings %v, want %s", codes(r), analysis.CodeFailed)
	}
}

// TestVerdicts plants effects and checks what is said about them.
func TestVerdicts(t *testing.T) {
	for _, tt := range []struct {
		name     string
		factor   float64
		noise    float64
		blocks   int
		smallest float64
		better   bench.Direction
		want     analysis.Verdict
	}{
		{"5 % slower", 1.05, 0.03, 60, 0, bench.Lower, analysis.Worse},
		{"5 % faster", 0.95, 0.03, 60, 0, bench.Lower, analysis.Better},
		{"5 % more of a rate", 1.05, 0.03, 60, 0, bench.Higher, analysis.Better},
		{"5 % less of a rate", 0.95, 0.03, 60, 0, bench.Higher, analysis.Worse},
		{"neither way", 1.05, 0.03, 60, 0, bench.Neither, analysis.Different},
		{"nothing, seen clearly", 1, 0.01, 200, 0, bench.Lower, analysis.Same},
		{"a real but small effect", 1.004, 0.005, 200, 0, bench.Lower, analysis.Same},
		{"the same effect, worth knowing", 1.004, 0.005, 200, 0.0005, bench.Lower, analysis.Worse},
		{"nothing, seen badly", 1, 0.03, 12, 0.001, bench.Lower, analysis.Unclear},
		{"too few pairs", 2, 0.03, 5, 0, bench.Lower, analysis.Unclear},
	} {
		t.Run(tt.name, func(t *testing.T) {
			metrics := analysistest.Lifecycle()[:1]
			metrics[0].Better = tt.better
			run := analysistest.Run(analysistest.Shape{
				Seed: 3, Blocks: tt.blocks, Metrics: metrics,
				Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: tt.factor}},
				Noise: func(r *rand.Rand) float64 { return tt.noise * r.NormFloat64() },
			})
			run.Header.Plan.Smallest = tt.smallest
			got := analyze(t, run).Metrics[0].Conditions[0].Cells[1].Comparison
			if got.Verdict != tt.want {
				t.Errorf("%+v, want %s", got, tt.want)
			}
			if settles := got.Blocks > tt.blocks; settles != (tt.want == analysis.Unclear && got.HasInterval) {
				t.Errorf("%s, settled by %d blocks", got.Verdict, got.Blocks)
			}
		})
	}
}

// TestMargins judges the same values by what is worth knowing of each metric.
func TestMargins(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{
		Seed: 3, Blocks: 40, Metrics: analysistest.Lifecycle()[:3],
		Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 1.03}},
	})
	for i := range run.Samples {
		v := run.Samples[i].Values
		v[1], v[2] = v[0], v[0]
	}
	run.Header.Plan.Margins = []bench.Margin{{Metric: "total", Smallest: 0.2}, {Metric: "create", Smallest: 0.001}}
	for i, want := range []struct {
		verdict analysis.Verdict
		asked   float64
	}{{analysis.Worse, 0}, {analysis.Same, 0.2}, {analysis.Worse, 0.001}} {
		m := analyze(t, run).Metrics[i]
		c, unit := m.Conditions[0], 1.0
		if m.Metric.Scale == bench.Difference { // its margin is a share of the baseline
			unit = c.Cells[0].Value
		}
		if got := c.Cells[1].Comparison.Verdict; got != want.verdict || m.Asked != want.asked ||
			want.asked > 0 && c.Smallest != want.asked*unit {
			t.Errorf("%s: %s within %v, asked %v; want %+v", m.Metric.Name, got, c.Smallest, m.Asked, want)
		}
	}
	r, err := analysis.Analyze(run, analysis.Options{Smallest: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Metrics {
		if v := m.Conditions[0].Cells[1].Comparison.Verdict; m.Asked != 0.3 || v != analysis.Same {
			t.Errorf("%s: %s, asked %v; an option is for all metrics", m.Metric.Name, v, m.Asked)
		}
	}
}

// TestNoisy checks that where the noise is large nothing is called the same,
// unless the user says what is worth knowing.
func TestNoisy(t *testing.T) {
	for _, scale := range []bench.Scale{bench.Ratio, bench.Difference} {
		for _, tt := range []struct {
			name            string
			noise, smallest float64
			want            analysis.Verdict
		}{
			{"a calm machine", 0.05, 0, analysis.Same},
			{"a noisy one", 1, 0, analysis.Unclear},
			{"a noisy one, as asked", 1, 8, analysis.Same},
		} {
			t.Run(string(scale)+", "+tt.name, func(t *testing.T) {
				metrics := analysistest.Lifecycle()[:1]
				metrics[0].Scale = scale
				run := analysistest.Run(analysistest.Shape{
					Seed: 7, Blocks: 40, Metrics: metrics, Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 1.001}},
					Noise: func(r *rand.Rand) float64 { return tt.noise * r.NormFloat64() },
				})
				run.Header.Plan.Smallest = tt.smallest
				for i := range run.Samples { // the cell differs, but by less than the control does
					if s := &run.Samples[i]; s.Trial.Cell == 1 {
						s.Values[0] = 1.09e-3 * (1.001 + float64(s.Trial.Block%5)/1000)
					}
				}
				c := analyze(t, run).Metrics[0].Conditions[0]
				got := c.Cells[1].Comparison
				if got.Verdict != tt.want || c.Noisy != (tt.want == analysis.Unclear) {
					t.Errorf("noise ±%v, δ %v: %+v, want %s", c.Noise.HalfWidth(), c.Smallest, got, tt.want)
				}
				if got.Verdict == analysis.Unclear && got.Blocks > 0 && got.Blocks <= 40 {
					t.Errorf("settled by %d blocks, which it has", got.Blocks)
				}
			})
		}
	}
}

// scaleCell multiplies a metric of one cell.
func scaleCell(run *bench.Run, cell, metric int, factor float64) {
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == cell {
			s.Values[metric] *= factor
		}
	}
}

// TestFarBeyondControl checks that a control that differs takes back what it could explain, and not what is many
// times larger.
func TestFarBeyondControl(t *testing.T) {
	const told = "a, measured twice, differs from itself in time to first instruction"
	const little = "the same thing measured twice differs from itself, but by too little to matter in any row"
	for _, tt := range []struct {
		control, factor, smallest float64
		want                      analysis.Verdict
		why                       string
	}{
		{1.05, 1.83, 0, analysis.Unreliable, told}, // 1.05 to the power of 12.706 is 1.859
		{1.05, 1.89, 0, analysis.Worse, little},
		{1.05, 1 / 1.83, 0, analysis.Unreliable, told},
		{1.05, 1 / 1.89, 0, analysis.Better, little},
		{1 / 1.05, 30, 0, analysis.Worse, little},
		{1.5, 30, 0, analysis.Unreliable, told},
		{1.05, 1.9, 1, analysis.Unreliable, told}, // within the margin, but it may be more
	} {
		run := analysistest.Run(analysistest.Shape{
			Seed: 5, Blocks: 40, Metrics: analysistest.Lifecycle()[:2],
			Noise: func(r *rand.Rand) float64 { return 0.0001 * r.NormFloat64() },
			Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: tt.factor}},
		})
		scaleCell(run, 2, 0, tt.control)
		r, err := analysis.Analyze(run, analysis.Options{Smallest: tt.smallest})
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Metrics[0].Conditions[0]; !c.Unreliable || c.Cells[1].Comparison.Verdict != tt.want {
			t.Errorf("control × %v, cell × %v: unreliable %v, %s, want %s",
				tt.control, tt.factor, c.Unreliable, c.Cells[1].Comparison.Verdict, tt.want)
		}
		if r.Trust.Level != analysis.Medium || r.Trust.Why != tt.why {
			t.Errorf("control × %v, cell × %v: trust %s, %q, want %q", tt.control, tt.factor, r.Trust.Level, r.Trust.Why, tt.why)
		}
	}
}

// TestControlWithoutCells checks that a control that differs does not make trust low where it takes nothing back.
func TestControlWithoutCells(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{Seed: 5, Blocks: 40, Cells: []analysistest.Cell{{Name: "a"}, {Name: "b"}}})
	scaleCell(run, 2, 0, 1.5)
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 1 {
			s.Outcome, s.Values, s.Operation, s.Reason = bench.Failed, nil, "start", "no such device"
		}
	}
	got := analyze(t, run).Trust
	if !slices.Contains(got.Codes, analysis.CodeControl) || got.Codes[0] == analysis.CodeControl {
		t.Errorf("trust %+v, want another reason first", got)
	}
}

// TestFarBeyondControlInUnits is the same for a metric whose effects are differences.
func TestFarBeyondControlInUnits(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{
		Seed: 5, Blocks: 40, Metrics: analysistest.Lifecycle()[:3],
		Noise: func(r *rand.Rand) float64 { return 0.0001 * r.NormFloat64() },
		Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 1.6}, {Name: "c", Factor: 1.7}},
	})
	scaleCell(run, 3, 2, 1.05) // create takes 0.31 ms, so what differs by less than 12.706 times 0.0155 ms is in doubt
	c := analyze(t, run).Metrics[2].Conditions[0]
	if b, c := c.Cells[1].Comparison.Verdict, c.Cells[2].Comparison.Verdict; b != analysis.Unreliable || c != analysis.Worse {
		t.Errorf("+0.186 ms is %s and +0.217 ms %s, want %s and %s", b, c, analysis.Unreliable, analysis.Worse)
	}
	if d := c.Doubtful; d < 0.000196 || d > 0.000199 {
		t.Errorf("in doubt is up to %v s", d)
	}
}

func TestUnreliable(t *testing.T) {
	run := analysistest.Run(steadyRun(40))
	control := len(run.Header.Plan.Cells) - 1
	scaleCell(run, control, 0, 1.2)
	r := analyze(t, run)
	if c := r.Metrics[0].Conditions[0]; !c.Unreliable || c.Cells[1].Comparison.Verdict != analysis.Unreliable {
		t.Errorf("unreliable %v, %+v", c.Unreliable, c.Cells[1].Comparison)
	}
	if c := r.Metrics[1].Conditions[0]; c.Unreliable || c.Cells[1].Comparison.Verdict != analysis.Worse {
		t.Errorf("the other metric: unreliable %v, %+v", c.Unreliable, c.Cells[1].Comparison)
	}
	if !slices.Contains(codes(r), analysis.CodeControl) {
		t.Errorf("warnings %v", codes(r))
	}
}

func TestConditions(t *testing.T) {
	s := steadyRun(30)
	s.Conditions = []string{"clients=1", "clients=8"}
	run := analysistest.Run(s)
	for i := range run.Samples { // floor is faster under load
		if s := &run.Samples[i]; run.Header.Plan.Cells[s.Trial.Cell].Condition == "clients=8" &&
			run.Header.Plan.Cells[s.Trial.Cell].Name == "floor" {
			s.Values[0] /= 5
		}
	}
	r := analyze(t, run)
	m := r.Metrics[0]
	if len(m.Conditions) != 2 || m.Summary == nil || len(m.Summary.Cells) != 5 {
		t.Fatalf("%d conditions, summary %+v", len(m.Conditions), m.Summary)
	}
	if got, want := m.Summary.Cells[1].Comparison.Estimate, 2.67/math.Sqrt(5); math.Abs(got/want-1) > 0.03 {
		t.Errorf("summary of floor %v, want about the geometric mean %v", got, want)
	}
	if m.Summary.Noise == nil {
		t.Error("the summary has no noise floor")
	}
	if got := codes(r); !slices.Equal(got, []string{analysis.CodeDisagree}) {
		t.Errorf("warnings %v, want only %s", got, analysis.CodeDisagree)
	}
}

// With containers on another machine, how far blocks are apart is told beside the
// differences between cells. It has no say in them: blocks are paired.
func TestSpread(t *testing.T) {
	shape := analysistest.Shape{
		Seed: 3, Blocks: 60, Cells: []analysistest.Cell{{Name: "native"}, {Name: "docker", Factor: 1.02}},
		Noise: func(r *rand.Rand) float64 { return 0.003 * r.NormFloat64() },
		Block: func(r *rand.Rand, _ int) float64 { return 0.1 * r.NormFloat64() },
	}
	run := analysistest.Run(shape)
	here := analyze(t, run).Metrics[0].Conditions[0]
	if here.Spread != 0 {
		t.Errorf("spread on the run's own host = %v, want none", here.Spread)
	}
	run.Header.Engines = append(run.Header.Engines, bench.EngineInfo{Name: "far", Away: &bench.Away{}})
	r := analyze(t, run)
	// Half of the distance between the quartiles of a normal distribution is 0.6745 σ.
	if got := r.Metrics[0].Conditions[0].Spread; got < 0.045 || got > 0.095 {
		t.Errorf("spread = %v, want about exp(0.6745 × 0.1) − 1 = 0.07", got)
	}
	if got := r.Metrics[0].Conditions[0].Cells[1].Comparison; got.Verdict != analysis.Worse || got.HalfWidth() > 0.01 {
		t.Errorf("the cell is %v ± %v, want 2 %% worse and exactly known", got.Verdict, got.HalfWidth())
	}
}

func TestRestrict(t *testing.T) {
	run := analysistest.Run(steadyRun(10))
	run.Header.Plan.Restrict = []string{"create"}
	r := analyze(t, run)
	var primary []string
	for _, m := range r.Metrics {
		if m.Metric.Role == bench.Primary {
			primary = append(primary, m.Metric.Name)
		}
	}
	if !slices.Equal(primary, []string{"create"}) || len(r.Metrics) != 6 {
		t.Errorf("primary %v of %d", primary, len(r.Metrics))
	}
}

// TestResumed checks that a pause does not count as time, and that what was
// different after it is told.
func TestResumed(t *testing.T) {
	run := analysistest.Run(steadyRun(10))
	whole := analyze(t, run)
	i := 33
	for j := range run.Samples[i:] {
		run.Samples[i+j].Began = run.Samples[i+j].Began.Add(24 * time.Hour)
	}
	run.Resumptions = []bench.Resumption{{Seq: i, Tool: run.Header.Tool, Host: run.Header.Host}}
	r := analyze(t, run)
	if len(r.Failures) > 0 || r.Trials != whole.Trials || len(r.Warnings) > 0 {
		t.Errorf("failures %+v, trials %+v, warnings %v", r.Failures, r.Trials, codes(r))
	}
	if r.Wall > whole.Wall || r.Wall < whole.Wall*9/10 {
		t.Errorf("wall %v, want about %v", r.Wall, whole.Wall)
	}
	begun := time.Duration(len(run.Samples) / len(run.Header.Plan.Cells))
	if r.BlockTime != r.Wall/begun || r.BlockTime == 0 {
		t.Errorf("%v of %v for a block, of which %d were begun", r.BlockTime, r.Wall, begun)
	}
	run.Resumptions[0].Host.Kernel = "7.0.1"
	if got := codes(analyze(t, run)); !slices.Equal(got, []string{analysis.CodeResidue}) {
		t.Errorf("another kernel: warnings %v", got)
	}
	run.Resumptions[0].Host = run.Header.Host
	governor := bench.Warning{Code: "host-governor", Text: "governor powersave"}
	run.Header.Warnings = []bench.Warning{governor, {Code: "host-load", Text: "load average 1.10 on 2 CPUs"}}
	run.Resumptions[0].Warnings = []bench.Warning{governor, {Code: "host-load", Text: "load average 7.00 on 2 CPUs"}}
	var texts []string
	for _, w := range analyze(t, run).Warnings {
		texts = append(texts, w.Text)
	}
	want := []string{
		"governor powersave", "load average 1.10 on 2 CPUs", "when the run was resumed: load average 7.00 on 2 CPUs",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("another load: warnings %q, want %q", texts, want)
	}
}

// TestWarmupsThatWereNotBegun checks that only what was begun counts as warm-up: else
// it would seem that something ran.
func TestWarmupsThatWereNotBegun(t *testing.T) {
	for outcome, warmups := range map[bench.Outcome]int{bench.Failed: 6, bench.Skipped: 0, bench.Unsupported: 0} {
		run := analysistest.Run(steadyRun(2))
		for i := range run.Samples {
			run.Samples[i].Outcome, run.Samples[i].Values = outcome, nil
		}
		if got := analyze(t, run).Trials; got.Warmup != warmups || got.Failed+got.Skipped+got.Unsupported != 12 {
			t.Errorf("all %s: %+v, want %d warm-up trials", outcome, got, warmups)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *bench.Run)
		want   string
	}{
		{"no cells", func(r *bench.Run) { r.Header.Plan.Cells = nil }, "run x: the plan has no cells"},
		{"no baseline", func(r *bench.Run) { r.Header.Plan.Cells[0].Baseline = false }, `run x: condition "" has no baseline`},
		{"two baselines", func(r *bench.Run) { r.Header.Plan.Cells[1].Baseline = true }, `run x: condition "" has two baselines, "native" and "floor"`},
		{"two controls", func(r *bench.Run) { r.Header.Plan.Cells[1].Control = true }, `run x: condition "" has two controls`},
		{"no such cell", func(r *bench.Run) { r.Samples[2].Trial.Cell = 6 }, "run x: sample 2: there is no cell 6: the plan has 6"},
		{"too many values", func(r *bench.Run) { r.Header.Metrics = r.Header.Metrics[:3] }, "run x: sample 0: 11 values for 3 metrics"},
		{"no such metric", func(r *bench.Run) { r.Header.Plan.Restrict = []string{"speed"} }, `run x: the plan's primary metric "speed" is not a metric of the run`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := analysistest.Run(steadyRun(2))
			run.Header.ID = "x"
			tt.change(run)
			_, err := analysis.Analyze(run, analysis.Options{})
			if err == nil || err.Error() != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// TestHostile checks that numbers from a broken file do no harm.
func TestHostile(t *testing.T) {
	run := analysistest.Run(steadyRun(10))
	for i := range run.Samples {
		s := &run.Samples[i]
		s.Trial.Block *= math.MaxInt / 16 // nothing of that size may be allocated
		switch i % 5 {
		case 0:
			s.Values[0] = math.Inf(1)
		case 1:
			s.Values[0] = -1
		case 2:
			s.Values[0] = math.MaxFloat64
		case 3:
			s.Values = s.Values[:1]
		}
	}
	analyze(t, run)
	analyze(t, &bench.Run{Header: run.Header})
	run.End = nil
	analyze(t, run)
}

// BenchmarkAnalyze is 1,000,000 stored values: 100 cells, 100 blocks, 100 metrics.
func BenchmarkAnalyze(b *testing.B) {
	run := analysistest.Run(largeRun())
	b.ResetTimer()
	for b.Loop() {
		if _, err := analysis.Analyze(run, analysis.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// How loud the machine is does not matter to a difference that is far larger: what
// it waits for is the number of blocks that any verdict takes.
func TestLargeDifferenceAmidNoise(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{
		Seed: 5, Blocks: 6, Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 40}},
		Metrics: analysistest.Lifecycle()[:2],
		Noise:   func(r *rand.Rand) float64 { return 0.4 * r.NormFloat64() },
	})
	c := analyze(t, run).Metrics[0].Conditions[0]
	got := c.Cells[1].Comparison
	if !c.Noisy || got.Verdict != analysis.Unclear || got.Blocks != 7 {
		t.Errorf("noisy %v, %s until %d blocks, want noise, and unclear until 7", c.Noisy, got.Verdict, got.Blocks)
	}
}
