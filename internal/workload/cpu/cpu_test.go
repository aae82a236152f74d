package cpu_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/engine/oci"
	"github.com/tare-bench/tare/internal/image/imagetest"
	load "github.com/tare-bench/tare/internal/load/cpu"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/cpu"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// program is the variable that makes this binary a program of the host, which
// says what the variable says.
const program = "TARE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	text, ok := os.LookupEnv(program)
	if !ok {
		os.Exit(m.Run())
	}
	var err error
	if strings.HasPrefix(filepath.Base(os.Args[0]), "pt_linux") {
		err = os.WriteFile("results_cpu.yml", []byte(text), 0o644)
	} else {
		_, err = io.WriteString(os.Stdout, text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// host puts a program of that name before all others, and returns what makes it
// say something.
func host(t *testing.T, name, says string) (env []string) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), self, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return []string{program + "=" + says}
}

// engines are one without isolation, one without a runtime, and one with it.
func engines(t *testing.T) []bench.Engine {
	t.Helper()
	s := enginetest.NewEnv(t, imagetest.Library(t))
	all := []bench.Engine{
		native.New(native.Config{Name: "native", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		floor.New(floor.Config{Name: "floor", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		oci.New(oci.Config{Name: "runc", Run: s.Run, Dir: s.Dir, Images: s.Images}),
	}
	for _, e := range all {
		enginetest.Use(t, e)
	}
	return all
}

// task is a cell with options, and the defaults of the others.
func task(e bench.Engine, spec bench.Spec, options ...string) bench.Task {
	return workloadtest.Task(cpu.New(), e, spec, options...)
}

// trial does what the runner does for one trial of a cell.
func trial(t *testing.T, task bench.Task) (*workloadtest.Meter, error) {
	t.Helper()
	w := cpu.New()
	m := workloadtest.NewMeter(t)
	if err := w.Check(t.Context(), task); err != nil {
		return m, err
	}
	f, err := w.(bench.Fixturer).Setup(t.Context(), task)
	if err != nil {
		return m, err
	}
	defer m.Cleanup(f.Remove)
	if err := f.Reset(t.Context()); err != nil {
		return m, err
	}
	task.Fixture = f
	err = w.Run(t.Context(), task, m)
	for name := range m.Values {
		if !slices.ContainsFunc(w.Metrics(), func(x bench.Metric) bool { return x.Name == name }) {
			t.Errorf("%s is no metric", name)
		}
	}
	return m, err
}

func TestLoad(t *testing.T) {
	for _, e := range engines(t) {
		m, err := trial(t, task(e, bench.Spec{}, "time", "50ms"))
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
		for _, metric := range cpu.New().Metrics() {
			if v := m.Values[metric.Name]; metric.Unit == "1/s" && metric.StretchOf == "" && v <= 0 { // it takes no turns
				t.Errorf("%s: %s = %v", e.Name(), metric.Name, v)
			}
		}
		if len(m.Got.Argv) == 0 {
			t.Errorf("%s: it is not known what was applied", e.Name())
		}
	}
}

// A fifth of a CPU gives a fifth of the operations, by wall clock, whichever
// kernels were standing still. The best of several trials are compared, and the
// bounds leave room, for other work on this machine.
func TestQuota(t *testing.T) {
	runc := engines(t)[2]
	score := func(limits bench.Limits) float64 {
		m, err := trial(t, task(runc, bench.Spec{Limits: limits}, "threads", "1"))
		if err != nil {
			t.Fatal(err)
		}
		return m.Values["cpu.single"]
	}
	free, limited, trials := 0.0, 0.0, 5
	if testing.Short() {
		trials = 3
	}
	for range trials {
		free = max(free, score(bench.Limits{}))
		limited = max(limited, score(bench.Limits{CPUs: 0.2}))
	}
	if ratio := limited / free; ratio < 0.1 || ratio > 0.5 {
		t.Errorf("with a fifth of a CPU it has %.2f of the operations, want 0.1 to 0.5", ratio)
	}
}

// A CPU set takes threads away; a quota does not.
func TestThreads(t *testing.T) {
	for _, e := range engines(t)[1:] {
		for limits, want := range map[bench.Limits]string{
			{CPUSet: "0"}: "1",
			{CPUs: 0.5}:   strconv.Itoa(runtime.NumCPU()),
		} {
			spec := bench.Spec{Limits: limits, Argv: supervise.Loads(nil, []string{load.Name, "time=10ms", "kernels=prime"})}
			if err := e.Prepare(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			m := workloadtest.NewMeter(t)
			p, err := supervise.Start(t.Context(), e, spec, m, "")
			if err != nil {
				t.Fatal(err)
			}
			reports, err := p.Reports(t.Context(), 1)
			m.Cleanup(p.Remove)
			if err != nil {
				t.Fatal(err)
			}
			report := reports[0]
			if report.Facts[load.FactThreads] != want || report.Facts[load.FactCPUs] != want {
				t.Errorf("%s, %+v: %+v, want %s threads", e.Name(), limits, report, want)
			}
		}
	}
}

const passed = `Results:
  Results Complete: true
  CPU_INTEGER_MATH: 1
  CPU_FLOATINGPOINT_MATH: 1
  CPU_PRIME: 1
  CPU_SORTING: 1000
  CPU_ENCRYPTION: 1
  CPU_COMPRESSION: 1000
  CPU_SINGLETHREAD: 2
  CPU_PHYSICS: 1000000
  CPU_MATRIX_MULT_SSE: 1
`

// Every tool, made by this test, in every engine: what it says becomes the
// scores, and what nobody knows becomes an error that quotes it.
func TestTools(t *testing.T) {
	for _, tool := range []struct {
		name, program, says, want string
		single, all               float64
	}{
		{"sysbench", "sysbench", "CPU speed:\n    events per second:  12.5\n", "events per second", 12.5, 12.5},
		{"stress-ng", "stress-ng", "stress-ng: metrc: [7] cpu 20 2.00 1.9 0.1 10.00 11.11\n", "metrc", 10, 10},
		{"pt_linux", "pt_linux_x64", passed, "CPU_INTEGER_MATH", 2e6, 1e6},
	} {
		for _, e := range engines(t) {
			m, err := trial(t, task(e, bench.Spec{Env: host(t, tool.program, tool.says)}, "tool", tool.name))
			if err != nil {
				t.Errorf("%s, %s: %v", tool.name, e.Name(), err)
			}
			if m.Values["cpu.single"] != tool.single || m.Values["cpu.all"]/tool.all < 1-1e-9 ||
				m.Values["cpu.all"]/tool.all > 1+1e-9 {
				t.Errorf("%s, %s: %v, want %v and %v", tool.name, e.Name(), m.Values, tool.single, tool.all)
			}
		}
		e := engines(t)[0]
		_, err := trial(t, task(e, bench.Spec{Env: host(t, tool.program, "\x1b[2Jbuy more\ncores\n")}, "tool", tool.name))
		if err == nil || !strings.Contains(err.Error(), tool.program) || !strings.Contains(err.Error(), tool.want) ||
			!strings.Contains(err.Error(), `"\x1b[2Jbuy more"`) {
			t.Errorf("%s: %v, want the program, %q and what it said", tool.name, err, tool.want)
		}
	}
}

func TestToolMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for tool, from := range map[string]string{
		"sysbench": "package sysbench", "stress-ng": "package stress-ng", "pt_linux": "PassMark",
	} {
		err := cpu.New().Check(t.Context(), task(nil, bench.Spec{}, "tool", tool))
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), from) {
			t.Errorf("%s: %v, want ErrUnsupported and %q", tool, err, from)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, cell := range []bench.Task{
		task(nil, bench.Spec{Image: "alpine"}),
		task(nil, bench.Spec{Argv: []string{"ls"}}),
		task(nil, bench.Spec{}, "tool", "sysbench", "kernels", "sort"),
	} {
		if err := cpu.New().Check(t.Context(), cell); !errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("%+v, %v: %v, want ErrUnsupported", cell.Spec, cell.Params, err)
		}
	}
}

func TestParams(t *testing.T) {
	bad := map[string][]string{
		"time":    {"", "1", "1ns", "1h", "fast"},
		"threads": {"", "0", "-1", "1.5", "every"},
		"kernels": {"", "sort sort", "cooking"},
		"tool":    {"fio", "sh -c true"},
		"prime":   {"", "2", "1e4", "many"},
	}
	for _, p := range cpu.New().Params() {
		if err := p.Valid(p.Default); err != nil {
			t.Errorf("the default of %s: %v", p.Name, err)
		}
		for _, value := range bad[p.Name] {
			if p.Valid(value) == nil {
				t.Errorf("%s takes %q", p.Name, value)
			}
		}
	}
}
