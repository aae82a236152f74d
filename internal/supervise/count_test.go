package supervise_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// engines returns one of each kind: no isolation, no daemon, a daemon.
func engines(t *testing.T) map[string]bench.Engine {
	t.Helper()
	s := enginetest.NewEnv(t, imagetest.Library(t))
	all := map[string]bench.Engine{
		"native": native.New(native.Config{Name: "native", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		"floor":  floor.New(floor.Config{Name: "floor", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		"docker": docker.New(docker.Config{Name: "docker", Run: s.Run, Dir: s.Dir, Images: s.Images}),
	}
	t.Cleanup(func() {
		for name, e := range all {
			if err := e.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	return all
}

// start starts the agent with a task.
func start(t testing.TB, e bench.Engine, l bench.Limits, task ...string) (*supervise.Process, *workloadtest.Meter) {
	t.Helper()
	_, err := e.Probe(t.Context())
	enginetest.Require(t, e.Name(), err)
	spec := bench.Spec{Argv: append([]string{agent.Path}, task...), Limits: l}
	if err := e.Prepare(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	m := workloadtest.NewMeter(t)
	p, err := supervise.Start(t.Context(), e, spec, m, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Cleanup(p.Remove) })
	return p, m
}

// What is counted for a process that stays, in and out of a container: it used
// the CPU, nothing throttled it, and its faults are its own and not the machine's.
func TestCount(t *testing.T) {
	for name, e := range engines(t) {
		t.Run(name, func(t *testing.T) {
			const size = 64 << 20
			p, m := start(t, e, bench.Limits{}, "alloc", "67108864")
			if _, err := p.AwaitLines(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			supervise.Record(m, p.Count(t.Context()))
			for _, c := range supervise.Counters() {
				if _, ok := m.Values[c.Name]; !ok && c.Role == bench.Counter && !maybeUncounted(c.Name) {
					t.Errorf("no %s", c.Name)
				}
			}
			v := m.Values
			if cpu := v["inside.user_time"] + v["inside.system_time"]; cpu <= 0 || cpu > 10 {
				t.Errorf("%v s of CPU time to fill %d MiB", cpu, size>>20)
			}
			// Huge pages need one fault each.
			if f := v["inside.page_faults"]; f < size>>21 || f > 100*size>>12 {
				t.Errorf("%v page faults", f)
			}
			if v["inside.throttled"] != 0 || v["inside.memory_limit"] != 0 || v["inside.block_limit"] != 0 {
				t.Errorf("limits that nobody set were met: %v", v)
			}
			if want := map[string]float64{"docker": 1}[name]; v["inside.seccomp_filters"] < want {
				t.Errorf("%v seccomp filters, want %v", v["inside.seccomp_filters"], want)
			}
		})
	}
}

// maybeUncounted reports whether some kernels do not count something.
func maybeUncounted(name string) bool {
	return slices.Contains([]string{"inside.io_wait", "inside.io_pressure", "inside.migrations", supervise.SystemCalls},
		name)
}

// A program that ends by itself was looked at while it ran, and a quota makes
// it stand still: one so small that it is met on the busiest machine.
func TestCountOfWhatEnds(t *testing.T) {
	for name, e := range engines(t) {
		t.Run(name, func(t *testing.T) {
			limits := bench.Limits{CPUs: 0.05}
			if name == "native" {
				limits = bench.Limits{}
			}
			p, m := start(t, e, limits, "spin", "500ms")
			out, err := p.Output(t.Context())
			if err != nil || !strings.HasPrefix(string(out), "cpu=") {
				t.Fatalf("%q, %v", out, err)
			}
			supervise.Record(m, p.Count(t.Context()))
			if m.Values["inside.user_time"] <= 0 {
				t.Errorf("no CPU time: %v", m.Values)
			}
			if stood := m.Values["inside.throttled"]; (stood > 0) != (limits.CPUs > 0) || stood > 200e-3 {
				t.Errorf("stood still for %v s of each 100 ms under %+v", stood, limits)
			}
		})
	}
}

// Two processes are counted together, and what is not known is not zero.
func TestRecord(t *testing.T) {
	e := engines(t)["native"]
	one, m := start(t, e, bench.Limits{}, "alloc", "67108864")
	two, _ := start(t, e, bench.Limits{}, "alloc", "67108864")
	gone, _ := start(t, e, bench.Limits{}, "exit", "0")
	if _, err := gone.Output(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Cleanup(gone.Remove)
	for _, p := range []*supervise.Process{one, two} {
		if _, err := p.AwaitLines(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	first, second := one.Count(t.Context()), two.Count(t.Context())
	supervise.Record(m, first)
	alone := maps.Clone(m.Values)
	supervise.Record(m, first, second)
	if both := m.Values["inside.page_faults"]; both < 1.5*alone["inside.page_faults"] {
		t.Errorf("%v page faults of two, %v of one", both, alone["inside.page_faults"])
	}
	clear(m.Values)
	supervise.Record(m, first, gone.Count(t.Context()))
	if len(m.Values) != 0 {
		t.Errorf("known of a process that ended at once: %v", m.Values)
	}
}

// Looking is cheap enough to be done while a program runs.
func BenchmarkCount(b *testing.B) {
	s := enginetest.NewEnv(b, imagetest.Library(b))
	e := native.New(native.Config{Name: "native", Run: s.Run, Dir: s.Dir, Images: s.Images})
	p, _ := start(b, e, bench.Limits{}, "alloc", "67108864")
	if _, err := p.AwaitLines(b.Context(), 1); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p.Count(b.Context())
	}
}
