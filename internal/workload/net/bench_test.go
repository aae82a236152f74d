package net_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/net"
)

// rounds is how many pairs a benchmark compares, at most: each takes some seconds.
const rounds = 10

// beside measures with tare's own load and with a tool, alternately and on the
// same CPUs, and reports the medians of the ratios.
func beside(
	b *testing.B, w bench.Workload, e bench.Engine, spec bench.Spec, tool string, given map[string]string,
	metrics ...string,
) {
	b.Helper()
	needTool(b, tool)
	ratios := map[string][]float64{}
	for round := range min(b.N, rounds) {
		var ours, theirs []bench.Sample
		with := maps.Clone(given)
		with["tool"] = tool
		delete(with, "warmup") // no tool knows these
		delete(with, "pings")
		if round%2 == 0 {
			ours = measure(b, w, e, spec, given)
		}
		theirs = measure(b, w, e, spec, with)
		if ours == nil {
			ours = measure(b, w, e, spec, given)
		}
		for i := range ours {
			for _, name := range metrics {
				a, ok1 := ours[i].Value(index(w, name))
				b, ok2 := theirs[i].Value(index(w, name))
				if ok1 && ok2 { // a tool that waits for a datagram that was lost has too few for a percentile
					ratios[name] = append(ratios[name], a/b)
				}
			}
		}
	}
	for _, name := range metrics {
		if len(ratios[name]) == 0 {
			b.Fatalf("no pair has %s", name)
		}
		slices.Sort(ratios[name])
		b.ReportMetric(ratios[name][len(ratios[name])/2], name+"/"+tool)
	}
}

// A network that both can be compared on.
func networks() map[string]bench.Spec {
	return map[string]bench.Spec{"loopback": {Network: "host"}, "bridge": {Network: "bridge"}}
}

func BenchmarkBesideSockperf(b *testing.B) {
	for name, spec := range networks() {
		b.Run("udp-"+name, func(b *testing.B) {
			given := map[string]string{"protocol": "udp", "pings": pings(b)}
			beside(b, net.NewRTT(testToken), open(b, name), spec, "sockperf", given, "rtt.p50", "rtt.p99")
		})
	}
}

// pings are so many that ratios tell something, but in a first round, which only
// shows that the benchmark runs.
func pings(b *testing.B) string {
	b.Helper()
	if b.N == 1 {
		return "1000"
	}
	return "50000"
}

// open is an engine on one of the networks.
func open(b *testing.B, network string) bench.Engine {
	b.Helper()
	if network == "bridge" {
		return localtest.Docker(b)
	}
	return localtest.Native(b)
}

func BenchmarkBesideIperf(b *testing.B) {
	for name, spec := range networks() {
		b.Run("tcp-"+name, func(b *testing.B) {
			beside(b, net.NewThroughput(testToken), open(b, name), spec, "iperf3",
				map[string]string{"time": "1s", "warmup": "100ms"}, "throughput.rate")
		})
	}
	b.Run("udp-loopback", func(b *testing.B) {
		given := map[string]string{"protocol": "udp", "time": "1s", "warmup": "100ms"}
		beside(b, net.NewThroughput(testToken), localtest.Native(b), bench.Spec{Network: "host"}, "iperf3",
			given, "throughput.rate")
	})
}
