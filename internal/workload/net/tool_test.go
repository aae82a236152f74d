package net

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/network"
	"github.com/tare-bench/tare/internal/supervise"
)

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestParseSockperf(t *testing.T) {
	r, err := parseSockperf(read(t, "sockperf-3.7.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"rtt.mean": 121.064 / 1e6, "rtt.max": 33072.819 / 1e6, "rtt.lost": 0,
		"rtt.p50": 18.805 / 1e6, "rtt.p90": 87.482 / 1e6, "rtt.p99": 2513.98 / 1e6, // 4,511 observations: no p99.9
	}
	if diff := cmp.Diff(want, r.Values, cmp.Comparer(near)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseIperf(t *testing.T) {
	for name, test := range map[string]struct {
		datagrams bool
		want      map[string]float64
	}{
		"iperf3-3.12-tcp.json": {false, map[string]float64{
			"throughput.rate": 1061027840 / 1.002671, "throughput.client_cpu": 28.44249014123829 / 100,
			"throughput.server_cpu": 29.687178985959655 / 100,
		}},
		"iperf3-3.12-udp-both.json": {true, map[string]float64{
			"throughput.rate": 685440/1.020273 + 671040/1.020273, "throughput.offered": 39067200/1.00488 + 57312000/1.00488,
			"throughput.loss":       (26172.0 + 38651) / (26648 + 39117),
			"throughput.jitter":     (0.5113845060193075 + 0.661879150023524) / 2 / 1000,
			"throughput.client_cpu": 14.691767853366578 / 100, "throughput.server_cpu": 24.03502925638789 / 100,
		}},
	} {
		r, err := parseIperf(read(t, name), test.datagrams)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, r.Values, cmp.Comparer(near)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func near(a, b float64) bool { return a == b || max(a-b, b-a) < 1e-9*max(a, b) }

func TestForeignOutput(t *testing.T) {
	for text, says := range map[string]string{
		"":                        "no line",
		"sockperf: all is well\n": "perhaps tare does not know this version",
		"sockperf: No messages were received from the server. Is the server down?\n": "did not answer",
		"Total 0 observations\n": "no line",
	} {
		if _, err := parseSockperf([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("sockperf %q: %v does not say %q", text, err, says)
		}
	}
	for text, says := range map[string]string{
		"":   "JSON",
		"{}": "sum_sent",
		`{"error": "unable to connect to server: Connection refused"}`:                                                                            "Connection refused",
		`{"end": {"sum_sent": {}, "sum_received": {}, "cpu_utilization_percent": {"host_total": 1, "remote_total": 1}}}`:                          "possible throughput.rate",
		`{"end": {"sum_sent": {}, "sum_received": {"bytes": 1, "seconds": 1}, "cpu_utilization_percent": {"host_total": -1, "remote_total": 1}}}`: "possible throughput.client_cpu",
	} {
		if _, err := parseIperf([]byte(text), false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("iperf3 %q: %v does not say %q", text, err, says)
		}
	}
}

// Whatever a tool prints, there is an error or a report that can be sent.
func FuzzTools(f *testing.F) {
	for _, name := range []string{"sockperf-3.7.txt", "iperf3-3.12-tcp.json", "iperf3-3.12-udp-both.json"} {
		f.Add(read(f, name))
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		if r, err := parseSockperf(output); err == nil {
			if _, err := r.Line(); err != nil {
				t.Error(err)
			}
		}
		for _, datagrams := range []bool{true, false} {
			if r, err := parseIperf(output, datagrams); err == nil {
				if _, err := r.Line(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]string{"100ms": "1", "1s": "1", "1.2s": "2", "2m": "120"} {
		if got := seconds(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// What the loads say is what the report has words for.
func TestNotes(t *testing.T) {
	if network.NoteSameCPU != supervise.NoteSameCPU || network.TokenVariable != tokenVariable {
		t.Error("the load and the workload use different words")
	}
}

// An option that a tool does not know is refused, and not passed over.
func TestUnknownOptions(t *testing.T) {
	for _, test := range []struct {
		w     bench.Workload
		tool  *tool
		given string
	}{
		{NewRTT(""), sockperf(), "pings"},
		{NewRTT(""), sockperf(), "timeout"},
		{NewThroughput(""), iperf3(), "knee"},
		{NewThroughput(""), iperf3(), "batch"},
	} {
		params := map[string]string{}
		for _, p := range test.w.Params() {
			params[p.Name] = p.Default
		}
		if err := test.tool.usable(test.w.Params(), params); err != nil && strings.Contains(err.Error(), "does not know") {
			t.Errorf("%s with its defaults: %v", test.tool.Name, err)
		}
		params[test.given] = "other"
		err := test.tool.usable(test.w.Params(), params)
		if !errors.Is(err, bench.ErrUnsupported) ||
			!strings.Contains(err.Error(), test.tool.Name+" does not know "+test.given) {
			t.Errorf("%s with %s: %v", test.tool.Name, test.given, err)
		}
	}
}
