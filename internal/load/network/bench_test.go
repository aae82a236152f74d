package network_test

import (
	"context"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load/network"
)

// rounds is how many pairs are compared, at most: each takes some seconds.
const rounds = 10

// BenchmarkBesideSockperf measures round trips alternately with this load and
// with sockperf, whose server has the last of two CPUs and whose client the
// first, as the load's have. It reports the medians of the ratios.
func BenchmarkBesideSockperf(b *testing.B) {
	for _, program := range []string{"sockperf", "taskset"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Skip(err)
		}
	}
	for _, protocol := range []string{"udp", "tcp"} {
		b.Run(protocol, func(b *testing.B) {
			_, addr := start(b)
			port := sockperfServer(b, protocol)
			var p50, p99 []float64
			for range min(b.N, rounds) {
				ours, err := measure(b, network.RTT, addr, options{"protocol": protocol, "pings": "20000"})
				if err != nil {
					b.Fatal(err)
				}
				out := sockperfClient(b, protocol, port)
				p50 = append(p50, ours.Values["rtt.p50"]*1e6/percentile(b, out, "50.000"))
				p99 = append(p99, ours.Values["rtt.p99"]*1e6/percentile(b, out, "99.000"))
			}
			b.ReportMetric(median(p50), "p50/sockperf")
			b.ReportMetric(median(p99), "p99/sockperf")
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

func flag(protocol string) []string {
	if protocol == "tcp" {
		return []string{"--tcp"}
	}
	return nil
}

func sockperfServer(b *testing.B, protocol string) (port string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	ctx, cancel := context.WithCancel(b.Context())
	cmd := exec.CommandContext(ctx, "taskset",
		append([]string{"-c", "1", "sockperf", "server", "-i", "127.0.0.1", "-p", port}, flag(protocol)...)...)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	time.Sleep(time.Second) // it says nothing that could be waited for where it is no terminal's
	return port
}

func sockperfClient(b *testing.B, protocol, port string) []byte {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "taskset", append([]string{
		"-c", "0", "sockperf", "ping-pong",
		"-i", "127.0.0.1", "-p", port, "-m", "64", "-t", "1", "--full-rtt",
	}, flag(protocol)...)...).Output()
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func percentile(b *testing.B, output []byte, p string) float64 {
	b.Helper()
	found := regexp.MustCompile(`percentile ` + p + ` =\s+([0-9.]+)`).FindSubmatch(output)
	if found == nil {
		b.Fatalf("sockperf said: %s", output)
	}
	v, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}
