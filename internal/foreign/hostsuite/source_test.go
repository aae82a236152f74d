package hostsuite_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/hostsuite"
)

// results is a file as the suite's description tells of it: no file of the script itself was at hand. The keys
// throughput_mibs, ops_per_second and disk_used_gb, whose value is a text, are the script's own.
const results = `{
  "timestamp": "2026-01-02T12:00:00+01:00",
  "system": {"hostname": "a", "os": "Debian GNU/Linux 13 (trixie)", "kernel": "6.12.1", "docker_version": "28.4.0",
    "cpu_model": "AMD EPYC", "cpu_cores": 2, "total_memory_mb": 8000},
  "idle": {"memory_used_mb": 400, "disk_used_gb": "3.1G", "docker_memory_mb": 90},
  "container_start": {"iterations": 100, "avg_ms": 312.5, "min_ms": 300, "max_ms": 400, "total_seconds": 31.25},
  "cpu": {"single_thread": {"events_per_second": 1000.5, "total_time": "10.0"}, "multi_thread_eps": 1990},
  "disk": {"write_iops": 12000, "bandwidth_kb": 48000},
  "network": {"throughput_gbps": 40},
  "memory": {"ops_per_second": 9000.5, "throughput_mibs": 10240.00},
  "build": {"times_seconds": [10, 12, 11]},
  "density": {"containers": 50, "startup_time_seconds": 20},
  "compose": {"up_ms": [900, 950], "down_ms": [600, 610, 605], "cycles": 10}
}`

func read(t testing.TB, text string) ([]foreign.Set, error) {
	t.Helper()
	return hostsuite.Source().Read(&foreign.Input{Files: []foreign.File{foreign.NewFile("results.json", text)}})
}

func TestResults(t *testing.T) {
	sets, err := read(t, results)
	if err != nil {
		t.Fatal(err)
	}
	s := sets[0]
	var got []map[string]float64
	for _, trial := range s.Trials {
		got = append(got, trial.Values)
	}
	want := []map[string]float64{
		{
			"idle.memory": 400 << 20, "idle.disk": 3.1 * (1 << 30), "idle.memory.engine": 90 << 20,
			"start.total": 0.3125, "memory.ops": 9000.5,
			"cpu.single": 1000.5, "cpu.all": 1990, "disk.randwrite.iops": 12000, "throughput.rate": 5e9, "build.total": 10,
			"density.fill": 20, "compose.up": 0.9, "compose.down": 0.6,
		},
		{"build.total": 12, "compose.up": 0.95, "compose.down": 0.61},
		{"build.total": 11, "compose.down": 0.605},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if h := s.Host; h.Hostname != "a" || h.Kernel != "6.12.1" || h.CPU != "AMD EPYC" || h.CPUs != 2 || s.Version != "28.4.0" {
		t.Errorf("host %+v, version %q", h, s.Version)
	}
	if want := time.Date(2026, 1, 2, 11, 0, 0, 0, time.UTC); !s.Trials[0].Began.Equal(want) {
		t.Errorf("began %v, want %v", s.Trials[0].Began, want)
	}
	if _, err := s.Run("test"); err != nil {
		t.Error(err)
	}
}

// The volume that is called a throughput is in no number, and what was not read is named.
func TestWhatIsLeftOut(t *testing.T) {
	sets, err := read(t, results)
	if err != nil {
		t.Fatal(err)
	}
	notes := fmt.Sprint(sets[0].Notes)
	for _, text := range []string{"memory.throughput_mibs is how much sysbench moved", "disk.bandwidth_kb"} {
		if !strings.Contains(notes, text) {
			t.Errorf("the notes do not say %q: %s", text, notes)
		}
	}
	for _, trial := range sets[0].Trials {
		if v, ok := trial.Values["memory.rate"]; ok {
			t.Errorf("memory.rate = %v", v)
		}
	}
}

// Of the network and of disks it is unknown what throughput_mibs is: sysbench has nothing to do with them.
func TestOtherThroughput(t *testing.T) {
	sets, err := read(t, `{"disk": {"throughput_mibs": 500}, "network": {"throughput_mibs": 900, "gbps": 1}}`)
	if err != nil {
		t.Fatal(err)
	}
	notes := fmt.Sprint(sets[0].Notes)
	if strings.Contains(notes, "sysbench") || !strings.Contains(notes, "disk.throughput_mibs, network.throughput_mibs") {
		t.Errorf("the notes are %s", notes)
	}
}

// What is called as in tare and is something else is named, with the difference, where it was read.
func TestWhatDiffers(t *testing.T) {
	sets, err := read(t, `{"density": {"memory_per_container_mb": 8}, "compose": {"up_ms": [900]}, "network": {"gbps": 1}}`)
	if err != nil {
		t.Fatal(err)
	}
	const want = "called as in tare, and not quite the same: density.memory (services of nginx, where tare's only wait), " +
		"compose.up (services of its own)"
	if n := sets[0].Notes; len(n) != 1 || n[0].Text != want || !strings.Contains(n[0].Hint, "host-tools") {
		t.Errorf("%+v, want %s", n, want)
	}
	if sets, err = read(t, `{"network": {"gbps": 1}}`); err != nil || len(sets[0].Notes) > 0 {
		t.Errorf("%+v, %v; want no note", sets, err)
	}
}

// 0 and second values of one metric have sentences of their own: it is known what they mean.
func TestWhatIsKnownAndLeftOut(t *testing.T) {
	sets, err := read(t, `{"compose": {"up_ms": 900, "up_seconds": 0.9}, "disk": {"write_iops": 0},
		"network": {"gbps": "0"}, "fio": {"bandwidth": 7}}`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range sets[0].Notes[1:] { // the first is about compose up itself
		got = append(got, n.Text)
	}
	want := []string{
		"0, which the script writes for a test that failed: left out: disk.write_iops, network.gbps",
		"left out, because another value was read as the same metric: compose.up_seconds (compose.up)",
		"not read, because it is unknown what it means or in which unit it is: fio.bandwidth",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Where a file says it in other words, it is the same; where it does not say the unit, nothing is guessed.
func TestOtherWords(t *testing.T) {
	tests := []struct {
		text, metric string
		want         float64 // 0 = none
	}{
		{`{"composeUpSeconds": 2}`, "compose.up", 2},
		{`{"docker_compose": {"up": "2100 ms"}}`, "compose.up", 2.1},
		{`{"iperf3": {"bitrate": "38.2 Gbits/sec"}}`, "throughput.rate", 38.2e9 / 8},
		{`{"network": {"throughput": 38}}`, "throughput.rate", 0},
		{`{"startup": {"average": 0.3}}`, "start.total", 0},
		{`{"sysbench": {"cpu_1_thread": "1200.07"}}`, "cpu.single", 0}, // it can be a time
		{`{"sysbench": {"cpu_1_thread_eps": "1200.07"}}`, "cpu.single", 1200.07},
		{`{"sysbench": {"cpu_4_threads_eps": 4000}}`, "cpu.all", 4000},
		{`{"sysbench": {"cpuThreads16": {"events_per_second": 9000}}}`, "cpu.all", 9000},
		{`{"cpu": {"2": {"events_per_second": 3}, "threads": 4}}`, "cpu.all", 3},
		{`{"cpu": {"thread_1": {"events_per_second": 3}}}`, "cpu.single", 3},
		{`{"cpu": {"threads_64": {"events": 3}}}`, "cpu.all", 0}, // how many there were
		{`{"cpu": {"single_thread": {"duration_s": 10, "events": 9, "events_per_second": 1000}}}`, "cpu.single", 1000},
		{`{"cpu": {"single_thread": {"cpu_max_prime": 20000}}}`, "cpu.single", 0},
		{`{"cpu": {"all": {"avg_events_per_thread": 2, "avg_time_per_event_s": 1, "eventsPerSecond": 3}}}`, "cpu.all", 3},
		{`{"memory": {"speed": "9000.5 MiB/sec"}}`, "memory.rate", 9000.5 * (1 << 20)},
		{`{"memory": {"throughput": "9000.5 MiB"}}`, "memory.rate", 0},
		{`{"memory": {"operations": 10240, "operations_per_sec": 9000}}`, "memory.ops", 9000},
		{`{"memory": {"bandwidth_mibps": 9000}}`, "memory.rate", 9000 << 20},
		{`{"cpu": {"load_1min": 0.5}}`, "cpu.single", 0},
		{`{"fio": {"iops": 0}}`, "disk.randwrite.iops", 0}, // a test that failed
		{`{"compose": {"up_down_ms": [900]}}`, "compose.up", 0},
		{`{"compose": {"up_down_ms": [900]}}`, "compose.down", 0},
		{`{"density": {"docker_memory_mb": 900}, "rest": {"docker_memory_mb": 90}}`, "idle.memory.engine", 90 << 20},
		{`{"docker_info": {"total_memory_mb": 8000}}`, "idle.memory.engine", 0},
		{`{"baseline": {"daemon_memory_mb": 90}}`, "idle.memory", 1 << 20}, // which stands in every text here
		{`{"density": {"cleanup_seconds": 5, "startup_seconds": 20}}`, "density.fill", 20},
		{`{"density": {"startup_avg_ms": 300}}`, "density.fill", 0},
		{`{"density": {"startup_avg_ms": 300}}`, "start.total", 0},
		{`{"build": {"cached_seconds": 2, "no_cache_seconds": [10, 12]}}`, "build.total", 10},
		{`{"build": {"cache_seconds": 2}}`, "build.total", 0},
		{`{"disk": {"write_bw_mbps": 48}}`, "disk.randwrite.rate", 0}, // of a disk it can be megabytes
		{`{"disk": {"write_bw": "48 MB/s"}}`, "disk.randwrite.rate", 48e6},
		{`{"network": {"mbps": 48}}`, "throughput.rate", 6e6},
	}
	for _, tt := range tests {
		text := strings.TrimSuffix(tt.text, "}") + `, "idle": {"memory_mb": 1}}` // so that there is a result
		sets, err := read(t, text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		got := sets[0].Trials[0].Values[tt.metric]
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", tt.text, tt.metric, diff)
		}
		notes := fmt.Sprint(sets[0].Notes)
		if tt.want == 0 && !strings.Contains(notes, "not read") && !strings.Contains(notes, "left out") {
			t.Errorf("%s: nobody is told that it was left out", tt.text)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	for text, want := range map[string]string{
		``:                                "results.json: its JSON is damaged: EOF",
		`[1, 2]`:                          "results.json: it is not an object of JSON",
		`{"a": 1}`:                        "results.json: there is no result of the suite in it",
		`{"a": `:                          "results.json: its JSON is damaged: unexpected EOF",
		strings.Repeat(`{"a":`, 50) + "1": "results.json: its JSON is damaged: unexpected EOF",
		strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50): "results.json: it has more than 20000 values, or more " +
			"than 20 levels",
	} {
		if _, err := read(t, text); err == nil || err.Error() != want {
			t.Errorf("%.60q: error %v, want %s", text, err, want)
		}
	}
}

// The log and the summary beside the results are no results.
func TestDirectory(t *testing.T) {
	in := &foreign.Input{Files: []foreign.File{
		foreign.NewFile("a/results.json", results), foreign.NewFile("a/benchmark.log", "x"),
		foreign.NewFile("a/summary.txt", "y"),
	}}
	sets, err := hostsuite.Source().Read(in)
	if err != nil || len(sets) != 1 {
		t.Errorf("%d sets, %v; want one", len(sets), err)
	}
}

// Whatever a file has in it, it is refused or makes a run that is as it must be.
func FuzzResults(f *testing.F) {
	f.Add(results)
	f.Add(`{"compose": {"up": [1e308, "2 s", null, {"ms": 3}]}}`)
	f.Add(`{"iperf": "1e"}`)
	f.Fuzz(func(t *testing.T, text string) {
		sets, err := read(t, text)
		if err != nil {
			return
		}
		for _, s := range sets {
			run, err := s.Run("test")
			if err != nil {
				t.Fatal(err)
			}
			for _, sample := range run.Samples {
				if slices.ContainsFunc(sample.Values, func(v float64) bool { return v < 0 || v > 1e300 }) {
					t.Errorf("impossible values %v", sample.Values)
				}
			}
		}
	})
}
