package memory

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// engines are one without isolation and one with it.
func engines(t *testing.T) []bench.Engine {
	t.Helper()
	s := enginetest.NewEnv(t, imagetest.Library(t))
	all := []bench.Engine{
		native.New(native.Config{Name: "native", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		floor.New(floor.Config{Name: "floor", Run: s.Run, Dir: s.Dir, Images: s.Images}),
	}
	for _, e := range all {
		enginetest.Use(t, e)
	}
	return all
}

// task is a cell with options, and the defaults of the others.
func task(e bench.Engine, spec bench.Spec, options ...string) bench.Task {
	return workloadtest.Task(New(), e, spec, options...)
}

// trial does what the runner does for one trial of a cell.
func trial(t *testing.T, task bench.Task) (*workloadtest.Meter, error) {
	t.Helper()
	m := workloadtest.NewMeter(t)
	if err := New().Check(t.Context(), task); err != nil {
		return m, err
	}
	var err error
	if task.Fixture, err = (workload{}).Setup(t.Context(), task); err != nil {
		return m, err
	}
	if err := task.Fixture.Reset(t.Context()); err != nil {
		return m, err
	}
	err = New().Run(t.Context(), task, m)
	for name := range m.Values {
		if !slices.ContainsFunc(New().Metrics(), func(x bench.Metric) bool { return x.Name == name }) {
			t.Errorf("%s is no metric", name)
		}
	}
	return m, err
}

func TestLoad(t *testing.T) {
	for _, e := range engines(t) {
		m, err := trial(t, task(e, bench.Spec{}, "time", "20ms", "size", "2MiB"))
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
		for _, name := range []string{
			"memory.copy", "memory.latency", "memory.read", "memory.write", "memory.triad",
			"memory.latency.16KiB", "memory.latency.1MiB",
		} {
			if m.Values[name] <= 0 {
				t.Errorf("%s: %s = %v", e.Name(), name, m.Values[name])
			}
		}
	}
}

// An engine's memory limit below the arrays ends the load, and that is told.
func TestMemoryLimit(t *testing.T) {
	e := engines(t)[1]
	_, err := trial(t, task(e, bench.Spec{Limits: bench.Limits{Memory: 32 << 20}}, "time", "20ms", "size", "64MiB"))
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("192 MiB within a limit of 32 MiB: %v", err)
	}
}

// The host's sysbench, in and out of a container.
func TestSysbench(t *testing.T) {
	if err := sysbench.Find(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("install sysbench to test with it")
	}
	for _, e := range engines(t) {
		m, err := trial(t, task(e, bench.Spec{}, "tool", "sysbench", "total", "64MiB", "threads", "2"))
		if err != nil || m.Values["memory.read"] <= 0 || m.Values["memory.write"] <= 0 {
			t.Errorf("%s: %v, %v", e.Name(), m.Values, err)
		}
	}
}

func TestSysbenchRate(t *testing.T) {
	text, err := os.ReadFile("testdata/sysbench-1.0.20.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := sysbenchRate(text); got != 13908.28*(1<<20) || !ok {
		t.Errorf("%v, %t", got, ok)
	}
	for _, bad := range []string{
		"", "1024.00 MB transferred (1.5 MB/sec)", "1.00 MiB transferred (0.00 MiB/sec)",
		"1.00 MiB transferred (inf MiB/sec)", "1.00 MiB transferred (1 MiB/sec",
	} {
		if got, ok := sysbenchRate([]byte(bad)); ok {
			t.Errorf("%q is %v", bad, got)
		}
	}
	job := sysbenchJobs(task(nil, bench.Spec{}))[0]
	if want := "sysbench memory --memory-oper=read --memory-scope=global --memory-access-mode=seq " +
		"--memory-block-size=1048576 --memory-total-size=10737418240 --threads=1 " +
		"--time=3600 run"; strings.Join(job.Spec.Argv, " ") != want {
		t.Errorf("argv %q, want %q", job.Spec.Argv, want)
	}
}

func FuzzSysbenchRate(f *testing.F) {
	f.Add([]byte("1024.00 MiB transferred (13908.28 MiB/sec)\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if rate, ok := sysbenchRate(text); ok && (!(rate > 0) || math.IsInf(rate, 0)) {
			t.Errorf("a rate of %v", rate)
		}
	})
}

func TestCheck(t *testing.T) {
	for name, cell := range map[string]bench.Task{
		"image": task(nil, bench.Spec{Image: "alpine"}),
		"argv":  task(nil, bench.Spec{Argv: []string{"ls"}}),
	} {
		if err := New().Check(t.Context(), cell); !errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
	}
	if err := New().Check(t.Context(), task(nil, bench.Spec{}, "size", "1MiB", "threads", "8")); err == nil ||
		!strings.Contains(err.Error(), "8 threads") {
		t.Errorf("too little for eight threads: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := New().Check(t.Context(),
		task(nil, bench.Spec{}, "tool", "sysbench")); !errors.Is(err, bench.ErrUnsupported) ||
		!strings.Contains(err.Error(), "package sysbench") {
		t.Errorf("without sysbench: %v", err)
	}
}

func TestParams(t *testing.T) {
	for _, p := range New().Params() {
		if err := p.Valid(p.Default); err != nil {
			t.Errorf("the default of %s: %v", p.Name, err)
		}
		for _, bad := range []string{"x", "-1", "1e99", "0"} {
			if p.Valid(bad) == nil {
				t.Errorf("%s takes %q", p.Name, bad)
			}
		}
	}
}

func TestSizeFor(t *testing.T) {
	for cache, want := range map[int64]int64{
		0: 64 << 20, 1 << 20: 64 << 20, 32 << 20: 128 << 20, 33 << 20: 256 << 20, 1 << 40: 1 << 30,
	} {
		if got := arraySize(cache); got != want {
			t.Errorf("with a cache of %d bytes %d, want %d", cache, got, want)
		}
	}
}
