package timeline_test

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// recorded reads a run that was measured on a real machine: traced trials and the timed ones of their blocks.
// scripts/record-timelines makes these files.
func recorded(t testing.TB, file string) *bench.Run {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for run, err := range record.Read(z) {
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	t.Fatalf("%s has no run", file)
	return nil
}

// roles are those that the path of each engine has at least.
var roles = map[string][]timeline.Role{
	"native":     {"tare", "program"},
	"runc":       {"tare", "runc", "runc init", "program"},
	"crun":       {"tare", "crun", "program"},
	"docker":     {"tare", "dockerd", "containerd", "shim", "runc", "runc init", "program"},
	"containerd": {"tare", "containerd", "shim", "runc", "runc init", "program"},
	"cri":        {"tare", "containerd", "shim", "runc", "runc init", "program"},
	"podman":     {"tare", "podman", "conmon", "crun", "program"},
}

// Every real timeline is explained: its tiles sum to the metric, every process has its role, and of less than
// 5 % nothing is known.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	explained := map[string]bool{}
	for _, file := range files {
		run := recorded(t, file)
		for _, metric := range timeline.Metrics(run) {
			explained[metric] = true
			checkRecorded(t, run, metric)
		}
		if first := timeline.Analyze(run, ""); first.Metric != timeline.Metrics(run)[0] {
			t.Errorf("%s: what is explained is %q", file, first.Metric)
		}
	}
	for _, metric := range []string{"first_instruction", "start.ready", "exec", "stop", "remove"} {
		if !explained[metric] {
			t.Errorf("no recording has %s", metric)
		}
	}
}

// What is explained if nobody says it is what the run decides by.
func TestDecidingMetricIsExplained(t *testing.T) {
	run := recorded(t, "testdata/exec-stop.jsonl.gz")
	run.Header.Plan.Restrict = []string{"stop"}
	if got := timeline.Analyze(run, "").Metric; got != "stop" {
		t.Errorf("what is explained is %q", got)
	}
}

func checkRecorded(t *testing.T, run *bench.Run, metric string) {
	t.Helper()
	result := timeline.Analyze(run, metric)
	if len(result.Cells) != len(run.Header.Plan.Cells) || result.Metric != metric || result.Title == "" {
		t.Errorf("%d of %d cells have timelines of %s", len(result.Cells), len(run.Header.Plan.Cells), metric)
	}
	for i := range result.Cells {
		c := &result.Cells[i]
		name := run.Header.Plan.Cells[c.Cell].Name
		if c.Complete == 0 || c.Complete != len(c.Timelines) || c.Failed > 0 {
			t.Errorf("%s of %s: %d of %d are complete: %s", metric, name, c.Complete, len(c.Timelines), c.Incomplete)
		}
		expected := roles[name]
		switch {
		case metric != "first_instruction" && name == "native":
			expected = expected[:1] // nobody else is asked
		case metric != "first_instruction":
			expected = expected[:2] // tare, and who is asked; the rest depends on the metric
		case run.Header.Plan.Cells[c.Cell].Spec.Network == "bridge":
			expected = append(slices.Clip(expected), "CNI plugin bridge", "iptables")
		}
		for j := range c.Timelines {
			check(t, name, &c.Timelines[j], expected)
		}
		t.Logf("%s of %s: %v, unknown %v, cost %v", metric, name, c.Value.Value, c.Unknown, c.Cost.Ratio)
		if c.Unknown > c.Value.Value/20 {
			t.Errorf("%s of %s: nothing is known of %v of %v", metric, name, c.Unknown, c.Value.Value)
		}
	}
}

func check(t *testing.T, name string, one *timeline.Timeline, roles []timeline.Role) {
	t.Helper()
	now := time.Duration(0)
	onPath, onCPU := make([]time.Duration, len(one.Lanes)), make([]time.Duration, len(one.Lanes))
	var found []timeline.Role
	for _, tile := range one.Tiles {
		if tile.At != now || tile.Duration <= 0 {
			t.Errorf("%s: a tile is from %v to %v, and the one before it ends at %v", name, tile.At, tile.End(), now)
		}
		now = tile.End()
		onPath[tile.Lane] += tile.Duration
		if tile.Kind == timeline.OnCPU || tile.Kind == timeline.InCall {
			onCPU[tile.Lane] += tile.Duration
		}
		if role := one.Lanes[tile.Lane].Role; !slices.Contains(found, role) {
			found = append(found, role)
		}
	}
	if now != one.Value {
		t.Errorf("%s: the tiles end at %v, the metric at %v", name, now, one.Value)
	}
	for _, want := range roles {
		if !slices.Contains(found, want) {
			t.Errorf("%s: %s is not on its path, but %q", name, want, found)
		}
	}
	for i, lane := range one.Lanes {
		if lane.OnPath != onPath[i] || lane.Parent >= i && lane.Began > one.Lanes[lane.Parent].Began ||
			lane.Began > lane.Ended || lane.Role == "" {
			t.Errorf("%s: lane %d is %s %q from %v to %v with %v on the path", name, i, lane.Role, lane.Name, lane.Began,
				lane.Ended, lane.OnPath)
		}
		for j, beside := range lane.Beside {
			if beside.At < 0 || beside.End() > one.Value || beside.Lane != i || j > 0 && beside.At < lane.Beside[j-1].At {
				t.Errorf("%s: lane %s has work from %v to %v beside the path", name, lane.Role, beside.At, beside.End())
			}
			onCPU[i] += beside.Duration
		}
		if lane.OnCPU < onCPU[i] {
			t.Errorf("%s: lane %s was on a CPU for %v, want at least %v", name, lane.Role, lane.OnCPU, onCPU[i])
		}
	}
}

// BenchmarkAnalyze shows what the timelines of a report take.
func BenchmarkAnalyze(b *testing.B) {
	run := recorded(b, "testdata/runc-docker.jsonl.gz")
	for b.Loop() {
		timeline.Analyze(run, "")
	}
}
