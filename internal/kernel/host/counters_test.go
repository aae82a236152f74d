package host_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
)

func open(t testing.TB, root string) *host.Counters {
	t.Helper()
	c, err := host.OpenCounters(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// values returns what End reports, by metric.
func values(c *host.Counters) map[string]float64 {
	dst := make([]float64, len(c.Metrics()))
	c.End(dst)
	byName := map[string]float64{}
	for i, m := range c.Metrics() {
		byName[m.Name] = dst[i]
	}
	return byName
}

func TestMetrics(t *testing.T) {
	c := open(t, "testdata/vm")
	seen := map[string]bool{}
	for _, m := range c.Metrics() {
		name, ok := strings.CutPrefix(m.Name, "host.")
		if !ok || name == "" || name != strings.ToLower(name) || seen[m.Name] {
			t.Errorf("metric %q: not a new, lower case name below host.", m.Name)
		}
		seen[m.Name] = true
		if m.Title == "" || m.Doc == "" || m.Unit == "" || m.Better == "" || m.Scale == "" {
			t.Errorf("metric %s is incomplete: %+v", m.Name, m)
		}
		if m.Role != bench.Counter && m.Role != bench.State {
			t.Errorf("metric %s has role %s", m.Name, m.Role)
		}
	}
}

func TestCounters(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/arm64")); err != nil {
		t.Fatal(err)
	}
	c := open(t, root)
	c.Begin(bench.Trial{}, 0)
	later := "cpu  100150 0 50030 9000000 290 0 200 12020 0 0\nctxt 501\nprocs_running 7\nprocs_blocked 3\n"
	if err := os.WriteFile(root+"/proc/stat", []byte(later), 0o644); err != nil {
		t.Fatal(err)
	}
	got := values(c)
	for name, want := range map[string]float64{
		"host.context_switches": 500, "host.user_time": 1.5, "host.steal_time": 0.2,
		"host.iowait_time":  math.NaN(), // went backward
		"host.page_faults":  math.NaN(),
		"host.cpu_time":     math.NaN(),
		"host.cpu_pressure": math.NaN(),
		"host.net_packets":  math.NaN(),
		"host.running":      1, "host.blocked": 0, // as at the beginning
		"host.load": 0.01, "host.memory_available": 60000000 << 10, "host.cpu_frequency": math.NaN(),
	} {
		v, ok := got[name]
		if !ok || math.Abs(v-want) > 1e-9 || math.IsNaN(v) != math.IsNaN(want) {
			t.Errorf("%s = %v, %v, want %v", name, v, ok, want)
		}
	}
}

// Of what is a level, such as the connections tracked, there can be less afterwards.
// What only ever grows is not known where it became less.
func TestLevelsMayFall(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/arm64")); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(root, "proc/net/stat/nf_conntrack")
	if err := os.MkdirAll(filepath.Dir(table), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(entries, drop string) {
		t.Helper()
		if err := os.WriteFile(table, []byte("entries drop\n"+entries+" "+drop+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("00000012", "00000005")
	c := open(t, root)
	c.Begin(bench.Trial{}, 0)
	write("0000000a", "00000004")
	got := values(c)
	if tracked := got["host.tracked"]; tracked != -8 {
		t.Errorf("connections tracked changed by %v, want -8", tracked)
	}
	if drops := got["host.track_drops"]; !math.IsNaN(drops) {
		t.Errorf("%v packets dropped by a counter that went backward", drops)
	}
}

// Two trials that take turns count each what happened in their own turns, and none of what was between them. The state
// is that before each began.
func TestCountersSuspended(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/arm64")); err != nil {
		t.Fatal(err)
	}
	c := open(t, root)
	switches, steal, running := 1000, 100, 1
	happen := func(more int) { // so many context switches, and as much time stolen
		t.Helper()
		switches, steal, running = switches+more, steal+more, running+1
		text := fmt.Sprintf("cpu  100000 0 50000 9000000 300 0 200 %d 0 0\nctxt %d\nprocs_running %d\nprocs_blocked 0\n",
			steal, switches, running)
		if err := os.WriteFile(root+"/proc/stat", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	happen(0)
	c.Begin(bench.Trial{Cell: 0}, 0) // with 2 threads running
	happen(1)
	first := c.Suspend()
	happen(1000)                     // between the turns
	c.Begin(bench.Trial{Cell: 1}, 0) // with 4
	happen(10)
	second := c.Suspend()
	for range 3 {
		happen(1000)
		first()
		happen(1)
		first = c.Suspend()
		happen(1000)
		second()
		happen(10)
		second = c.Suspend()
	}
	for _, trial := range []struct {
		resume         func()
		each, in       int
		running, stole float64
	}{{first, 1, 5, 2, 0.05}, {second, 10, 5, 4, 0.5}} {
		happen(1000)
		trial.resume()
		happen(trial.each)
		got := values(c)
		if n := got["host.context_switches"]; n != float64(trial.in*trial.each) {
			t.Errorf("%v context switches in %d turns with %d each", n, trial.in, trial.each)
		}
		if s := got["host.steal_time"]; math.Abs(s-trial.stole) > 1e-9 {
			t.Errorf("%v s stolen, want %v", s, trial.stole)
		}
		if n := got["host.running"]; n != trial.running {
			t.Errorf("%v threads ran at the beginning, want %v", n, trial.running)
		}
	}
}

func TestCountersLive(t *testing.T) {
	c := open(t, "/")
	c.Begin(bench.Trial{}, 0)
	if err := exec.Command("true").Run(); err != nil {
		t.Fatal(err)
	}
	got := values(c)
	for _, name := range []string{"host.context_switches", "host.forks", "host.page_faults", "host.memory_available"} {
		if !(got[name] >= 1) {
			t.Errorf("%s = %v after a process ran", name, got[name])
		}
	}
	dst := make([]float64, len(got))
	if n := testing.AllocsPerRun(20, func() { c.Begin(bench.Trial{}, 0); c.End(dst) }); n != 0 {
		t.Errorf("Before and After allocate %v times", n)
	}
}

func TestCountersNothing(t *testing.T) {
	if _, err := host.OpenCounters("testdata/silent"); err == nil {
		t.Error("counters of a machine that has none")
	}
}

func BenchmarkCounters(b *testing.B) {
	c := open(b, "/")
	dst := make([]float64, len(c.Metrics()))
	b.ReportAllocs()
	for b.Loop() {
		c.Begin(bench.Trial{}, 0)
		c.End(dst)
	}
}
