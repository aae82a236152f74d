package report_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// documentOf analyses one run.
func documentOf(t *testing.T, run *bench.Run) *report.Document {
	t.Helper()
	r, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return report.New(r, nil)
}

// TestCommand checks the command that plans the same, and that nothing reaches a shell that is not
// taken as it is.
func TestCommand(t *testing.T) {
	plain := func(h *bench.Header) {
		h.Plan.Budget, h.Plan.Precision, h.Plan.Slice = 90*time.Second, 0.07, 20*time.Millisecond
		h.Plan.Margins = []bench.Margin{{Metric: "total", Smallest: 0.1, Precision: 0.05}}
		h.Plan.Warmup, h.Plan.Washout = 2, 50*time.Millisecond
		h.Plan.TrialTime, h.Plan.OpTime = 90*time.Second, 20*time.Second
		for i := range h.Plan.Cells {
			h.Plan.Cells[i].Params = map[string]string{"tool": "", "parts": "a,b", "engine": "x"}
		}
		h.Plan.Cells[1].Params["size"] = "1MiB" // not of every cell
	}
	rename := func(h *bench.Header, level string) {
		h.Plan.Factors[0].Levels[1], h.Plan.Cells[1].Levels[0].Value = level, level
	}
	bare := func(baseline string) string {
		return "tare run lifecycle --engine native,floor,crun --baseline " + baseline + " --blocks 8..8 --budget off " +
			"--precision off --interleave off --warmup 0 --washout off --trial-timeout 1m0s --operation-timeout 30s --seed 3"
	}
	for _, c := range []struct {
		name   string
		change func(h *bench.Header)
		want   string
	}{
		{
			"all of it", plain, "tare run lifecycle --engine native,floor,crun --baseline native --param parts=a,b " +
				"--blocks 8..8 --budget 1m30s --precision 7% --smallest total=10% --precision total=5% --interleave 20ms " +
				"--warmup 2 --washout 50ms --trial-timeout 1m30s --operation-timeout 20s --seed 3",
		},
		{"blocks alone", func(*bench.Header) {}, bare("native")},
		{"the budget of an extended run", func(h *bench.Header) {
			h.Plan.Budget = 4*time.Minute + 43*time.Second + 357_624_561
		}, strings.Replace(bare("native"), "--budget off", "--budget 4m43s", 1)},
		{"a budget below a second", func(h *bench.Header) {
			h.Plan.Budget = 300 * time.Millisecond
		}, strings.Replace(bare("native"), "--budget off", "--budget 300ms", 1)},
		{"name for a shell", func(h *bench.Header) { h.Plan.Name = "x;reboot" }, ""},
		{"name like a flag", func(h *bench.Header) { h.Plan.Name = "--store=x" }, ""},
		{"level with a space", func(h *bench.Header) {
			rename(h, "a b")
		}, strings.Replace(bare("native"), "native,floor,crun", "'native,a b,crun'", 1)},
		{"level with a quote", func(h *bench.Header) { rename(h, "a'b") }, ""},
		{"level of two", func(h *bench.Header) { rename(h, "a,b") }, ""},
		{"level of no cell", func(h *bench.Header) {
			h.Plan.Factors[0].Levels = append([]string{"excluded"}, h.Plan.Factors[0].Levels...)
		}, bare("native")},
		{"option for a shell", func(h *bench.Header) {
			for i := range h.Plan.Cells {
				h.Plan.Cells[i].Params = map[string]string{"script": "$(x)"}
			}
		}, ""},
		{"name of a metric", func(h *bench.Header) { h.Metrics[0].Name, h.Plan.Restrict = "$(x)", []string{"$(x)"} }, ""},
		{"engine with options", func(h *bench.Header) { h.Engines[0].Options = map[string]string{"binary": "./runc"} }, ""},
		{"built-in engine with options", func(h *bench.Header) {
			h.Engines[0].Options, h.Engines[0].BuiltIn = map[string]string{"binary": "./runc"}, true
		}, bare("native")},
		{"another baseline", func(h *bench.Header) {
			h.Plan.Cells[0].Baseline, h.Plan.Cells[2].Baseline = false, true
		}, bare("crun")},
		{"baseline of two words", func(h *bench.Header) { h.Plan.Cells[0].Name = "docker cpus=2" }, bare("'docker cpus=2'")},
		{"baseline for a shell", func(h *bench.Header) { h.Plan.Cells[0].Name = "$(x)" }, ""},
		{"a baseline for each condition", func(h *bench.Header) {
			h.Plan.Cells[2].Baseline, h.Plan.Cells[2].Condition = true, "size=64"
		}, ""},
		{"without control", func(h *bench.Header) {
			h.Plan.Cells[3].Control, h.Plan.Syscalls = false, true
		}, strings.Replace(bare("native"), " --interleave", " --no-control --syscalls --interleave", 1)},
		{"of another program", func(h *bench.Header) { h.MeasuredBy = "pgbench" }, ""},
		{"planted", func(h *bench.Header) { h.Plan.Plants = []bench.Plant{{Cell: 1, Delay: time.Second}} }, ""},
	} {
		run := analysistest.Run(analysistest.Shape{Seed: 3, Blocks: 8, Cells: engines()[:3]})
		c.change(&run.Header)
		if d := cmp.Diff(c.want, documentOf(t, run).Runs[0].Plan.Command); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

// TestAppliedOnce checks that what every cell has is said once, and cells that are alike together.
func TestAppliedOnce(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{Seed: 3, Blocks: 8, Cells: engines()[:4]})
	for i := range run.Samples {
		a := &bench.Applied{Image: "sha256:0123456789abcdef", Network: "host", Cgroup: "v2"}
		a.Facts = map[string]string{"version": "15"}
		switch run.Samples[i].Trial.Cell {
		case 1, 2:
			a.Runtime, a.Limits.Memory, a.Security.ReadOnly = "crun", 64<<20, true
		case 3:
			a.Network, a.Maker = "bridge\x1b[2J", "docker-compose 1.29.2"
			a.Facts = map[string]string{"version": "15", "jit": "on"}
		}
		run.Samples[i].Applied = a
	}
	var got []string
	for _, l := range documentOf(t, run).View.Applied {
		got = append(got, l.Name+": "+strings.Join(l.Text, ", "))
	}
	want := []string{
		"every cell: image 0123456789ab, control groups v2", "native: network host",
		"floor, crun: runtime crun, network host, memory 64 MiB, read-only root",
		`runc: made by docker-compose 1.29.2, network bridge\x1b[2J, jit on`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestWarningsNameRunsShort checks that warnings name runs as commands do, whatever wrote the warning, and that
// programs get whole IDs.
func TestWarningsNameRunsShort(t *testing.T) {
	const other, foreign = "20260314-141500-2abc", "big-1000000"
	run := twoRuns()[0]
	run.Header.Warnings = []bench.Warning{{
		Code: analysis.CodeOtherRun, Text: "2 other runs were under way (" + other + ", " + foreign + ")", Hint: "see " + other,
	}}
	run.End = nil
	result, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := report.New(result, lastPart)
	for _, want := range []report.Note{
		{Text: "2 other runs were under way (2abc, " + foreign + ")", Hint: "see 2abc"},
		{Hint: "finish it: tare resume " + lastPart(run.Header.ID)},
	} {
		if !slices.ContainsFunc(d.Notes, func(n report.Note) bool {
			return n.Hint == want.Hint && strings.HasPrefix(n.Text, want.Text)
		}) {
			t.Errorf("no warning %+v in %+v", want, d.Notes)
		}
	}
	if got := d.Warned[0]; !strings.Contains(got.Text, other) || !strings.Contains(got.Hint, other) {
		t.Errorf("a program gets %+v", got)
	}
	both := twoRuns()
	both[1].End = nil
	contrast, err := analysis.Compare(both, analysis.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := both[1].Header.ID
	want := report.Note{
		Text: "run " + lastPart(id) + " was not finished", Hint: "finish it: tare resume " + lastPart(id),
	}
	if got := report.NewComparison(contrast, lastPart).Notes; !slices.Contains(got, want) {
		t.Errorf("no warning %+v in %+v", want, got)
	}
}
