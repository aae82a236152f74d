package net_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/net"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

const testToken = "token-of-these-tests"

// params are the defaults, in a short form, and what is given.
func params(w bench.Workload, given map[string]string) map[string]string {
	all := map[string]string{}
	for _, p := range w.Params() {
		all[p.Name] = p.Default
	}
	switch {
	case given["tool"] != "": // which does not know all of them
	case w.Name() == "net-rtt":
		maps.Copy(all, map[string]string{"pings": "1500", "warmup": "10"})
	default:
		maps.Copy(all, map[string]string{"time": "400ms", "warmup": "20ms"})
		if !testing.Short() { // beside the long form of all tests, a short time may see nothing
			all["time"] = "1s"
		}
	}
	maps.Copy(all, given)
	return all
}

// measure runs two trials of one cell, with plain processes for clients. In the short form a tool, which takes
// a second at least, has one.
func measure(t testing.TB, w bench.Workload, e bench.Engine, spec bench.Spec, given map[string]string) []bench.Sample {
	t.Helper()
	n := 2
	if testing.Short() && given["tool"] != "" {
		n = 1
	}
	return workloadtest.Trials{
		Workload: w, Engine: e, Client: localtest.Native(t), Spec: spec, Params: params(w, given), N: n,
	}.Run(t)
}

// value is a metric of a sample, which must have it.
func value(t testing.TB, w bench.Workload, s bench.Sample, name string) float64 {
	t.Helper()
	if s.Outcome != bench.OK {
		t.Fatalf("%s: %s", s.Outcome, s.Reason)
	}
	v, ok := s.Value(index(w, name))
	if !ok {
		t.Fatalf("%s: no value", name)
	}
	return v
}

// index is where a metric is among those of a workload.
func index(w bench.Workload, name string) int {
	return slices.IndexFunc(w.Metrics(), func(m bench.Metric) bool { return m.Name == name })
}

// complete holds samples to have succeeded, with values above zero, and to have
// been applied the same.
func complete(t *testing.T, w bench.Workload, samples []bench.Sample, metrics ...string) {
	t.Helper()
	for _, s := range samples {
		for _, name := range metrics {
			if v := value(t, w, s, name); v <= 0 {
				t.Errorf("%s = %v", name, v)
			}
		}
		if len(s.Applied.Path) == 0 {
			t.Error("no path")
		}
	}
	if diff := cmp.Diff(samples[0].Applied, samples[len(samples)-1].Applied); diff != "" {
		t.Errorf("applied to the last (-first +last):\n%s", diff)
	}
}

var (
	times = []string{"rtt.p50", "rtt.p90", "rtt.p99", "rtt.max", "rtt.mean"}
	rates = []string{"throughput.rate"}
)

func TestNative(t *testing.T) {
	e := localtest.Native(t)
	for _, protocol := range []string{"udp", "tcp"} {
		given := map[string]string{"protocol": protocol}
		trips := measure(t, net.NewRTT(testToken), e, bench.Spec{Network: "host"}, given)
		complete(t, net.NewRTT(testToken), trips, times...)
		for _, s := range trips {
			if len(s.Distributions) != 1 || s.Distributions[0].Metric != "rtt" {
				t.Errorf("%s: distributions %v", protocol, s.Distributions)
			}
			if diff := cmp.Diff([]string{"loopback"}, s.Applied.Path); diff != "" {
				t.Errorf("%s: path (-want +got):\n%s", protocol, diff)
			}
		}
		complete(t, net.NewThroughput(testToken),
			measure(t, net.NewThroughput(testToken), e, bench.Spec{Network: "host"}, given), rates...)
	}
}

// TestDocker goes through every way that leads into a container.
func TestDocker(t *testing.T) {
	e := localtest.Docker(t)
	for name, spec := range map[string]bench.Spec{
		"whatever is usual": {},
		"host":              {Network: "host"},
		"bridge":            {Network: "bridge"},
		"published":         {Network: "bridge", Reach: bench.ReachPublished},
		"peer":              {Network: "bridge", Reach: bench.ReachPeer},
	} {
		t.Run(name, func(t *testing.T) {
			trips := measure(t, net.NewRTT(testToken), e, spec, nil)
			complete(t, net.NewRTT(testToken), trips, times...)
			if name == "whatever is usual" {
				if network := trips[0].Applied.Network; network != "bridge" {
					t.Errorf("its usual network is %q", network)
				}
				if testing.Short() {
					return // the rest is that of the bridge
				}
			}
			complete(t, net.NewThroughput(testToken),
				measure(t, net.NewThroughput(testToken), e, spec, map[string]string{"protocol": "udp"}), rates...)
		})
	}
}

func needTool(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("install %s to test with it", name)
	}
}

func TestSockperf(t *testing.T) {
	needTool(t, "sockperf")
	for _, protocol := range []string{"udp", "tcp"} {
		complete(t, net.NewRTT(testToken), measure(t, net.NewRTT(testToken), localtest.Native(t), bench.Spec{},
			map[string]string{"tool": "sockperf", "protocol": protocol}), "rtt.p50", "rtt.p90", "rtt.max", "rtt.mean")
	}
}

func TestIperf(t *testing.T) {
	needTool(t, "iperf3")
	for _, given := range []map[string]string{
		{"protocol": "tcp", "direction": "both"},
		{"protocol": "udp", "direction": "down", "rate": "1000000"},
	} {
		given["tool"] = "iperf3"
		complete(t, net.NewThroughput(testToken),
			measure(t, net.NewThroughput(testToken), localtest.Native(t), bench.Spec{}, given), rates...)
	}
}

// A publisher has the tools' servers in containers, by ports of the host.
func TestToolsInDocker(t *testing.T) {
	needTool(t, "sockperf")
	needTool(t, "iperf3")
	e := localtest.Docker(t)
	spec := bench.Spec{Network: "bridge", Reach: bench.ReachPublished}
	complete(t, net.NewRTT(testToken), measure(t, net.NewRTT(testToken), e, spec, map[string]string{"tool": "sockperf"}),
		"rtt.p50")
	complete(t, net.NewThroughput(testToken),
		measure(t, net.NewThroughput(testToken), e, spec,
			map[string]string{"tool": "iperf3", "protocol": "udp", "rate": "1000000"}), rates...)
}

// A serverKiller kills each server that it makes, once that is busy with a client.
type serverKiller struct{ *native.Engine }

func (k serverKiller) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	c, err := k.Engine.Create(ctx, spec)
	go k.kill(ctx, c)
	return c, err
}

// kill waits until the server has used more CPU time than beginning takes.
func (k serverKiller) kill(ctx context.Context, c bench.Container) {
	for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		pid, err := k.Pid(ctx, c)
		if err != nil {
			continue // it has not been started
		}
		if used, err := proc.TallyOf("/", pid); err != nil || used.UserTime+used.SystemTime > 0.2 {
			_ = k.Signal(ctx, c, syscall.SIGKILL) // it may have ended
			return
		}
	}
}

func TestServerThatIsKilled(t *testing.T) {
	for _, given := range []map[string]string{{"pings": "1000000000"}, {"pings": "1000000000", "protocol": "tcp"}} {
		s := measure(t, net.NewRTT(testToken), serverKiller{localtest.Native(t)}, bench.Spec{}, given)[0]
		if s.Outcome != bench.Failed || !strings.Contains(s.Reason, "the server is gone") ||
			!strings.Contains(s.Reason, "killed by signal 9") {
			t.Errorf("%v: %s: %s", given, s.Outcome, s.Reason)
		}
	}
}

// engineWithoutAddress is an engine without addresses.
type engineWithoutAddress struct{ bench.Engine }

func TestCheck(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	e := localtest.Native(t)
	for name, test := range map[string]struct {
		w      bench.Workload
		engine bench.Engine
		spec   bench.Spec
		given  map[string]string
		says   string // "" = it can run
	}{
		"round trips":  {net.NewRTT(testToken), e, bench.Spec{}, nil, ""},
		"throughput":   {net.NewThroughput(testToken), e, bench.Spec{Network: "host"}, nil, ""},
		"no addresses": {net.NewRTT(testToken), engineWithoutAddress{e}, bench.Spec{}, nil, "does not tell the addresses"},
		"no network":   {net.NewRTT(testToken), e, bench.Spec{Network: "none"}, nil, "use network host or bridge"},
		"image":        {net.NewRTT(testToken), e, bench.Spec{Image: "oci:somewhere"}, nil, "leave image and argv out"},
		"argv":         {net.NewThroughput(testToken), e, bench.Spec{Argv: []string{"x"}}, nil, "leave image and argv out"},
		"no sockperf":  {net.NewRTT(testToken), e, bench.Spec{}, map[string]string{"tool": "sockperf"}, "install package sockperf"},
		"no iperf3":    {net.NewThroughput(testToken), e, bench.Spec{}, map[string]string{"tool": "iperf3"}, "install package iperf3"},
		"no knee":      {net.NewThroughput(testToken), e, bench.Spec{}, map[string]string{"tool": "iperf3", "knee": "yes"}, "iperf3 does not know knee"},
	} {
		err := test.w.Check(t.Context(), bench.Task{Engine: test.engine, Spec: test.spec, Params: params(test.w, test.given)})
		if test.says == "" && err != nil ||
			test.says != "" && (!errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

func TestParams(t *testing.T) {
	for _, w := range []bench.Workload{net.NewRTT(testToken), net.NewThroughput(testToken)} {
		for _, p := range w.Params() {
			if err := p.Valid(p.Default); err != nil {
				t.Errorf("%s: the default of %s: %v", w.Name(), p.Name, err)
			}
			for _, bad := range []string{"x", "-1", "1e99", "24h", "\x00"} {
				if p.Valid(bad) == nil {
					t.Errorf("%s: %s takes %q", w.Name(), p.Name, bad)
				}
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range slices.Concat(net.NewRTT(testToken).Metrics(), net.NewThroughput(testToken).Metrics()) {
		if m.Role == bench.Counter || m.Role == bench.State {
			continue // both have them
		}
		if seen[m.Name] || m.Title == "" || m.Doc == "" {
			t.Errorf("%s is declared twice, or says nothing", m.Name)
		}
		seen[m.Name] = true
	}
}
