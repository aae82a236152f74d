package cli_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/report"
)

// An experimentTest is an experiment, and what it has to measure.
type experimentTest struct {
	args    []string
	want    []string // metrics that every engine has a value of, where it can do that
	lack    []string // engines that cannot
	engines []string // nil = all
}

// shortHost is the experiment of a whole host with little of everything. Beside other tests, the disk saw nothing in
// 20 ms, and the network nothing in 50 ms.
func shortHost() []string {
	return []string{
		"host", "--param", "idle.time=200ms", "--param", "idle.calm=0s", "--param", "cpu.time=" + partTime("20ms", "200ms"),
		"--param", "memory.time=" + partTime("20ms", "200ms"), "--param", "disk.time=" + partTime("300ms", "500ms"),
		"--param", "disk.size=4MiB", "--param", "net-throughput.time=" + partTime("200ms", "1s"),
		"--param", "density.count=2", "--param", "density.idle=100ms", "--param", "build.files=2", "--param", "build.size=64KiB",
		"--param", "compose.services=2", "--param", "compose.tool=bare",
	}
}

// partTime is how long a part measures. Beside the long form of all tests, a short part may see nothing.
func partTime(inShort, inLong string) string {
	if testing.Short() {
		return inShort
	}
	return inLong
}

// Every built-in experiment runs on every engine that must be here, does what
// it says, and leaves nothing.
func TestBuiltinExperiments(t *testing.T) {
	t.Parallel() // no time is asserted; the experiments themselves come one after the other
	engines := usable(t, "native", "floor", "runc", "crun", "docker", "podman", "containerd", "cri")
	servers, parts := engines, []string{"read1", "read", "write1", "write"}
	if testing.Short() { // the tests of workload/postgres have native, floor, runc, and all parts
		servers, parts = usable(t, "docker", "podman", "containerd"), []string{"read1", "write1"}
	}
	tests := []experimentTest{
		{[]string{"lifecycle"}, []string{"first_instruction", "total", "create", "start", "exit", "remove"}, nil, nil},
		{[]string{"operations"}, []string{"exec", "signal", "pause", "resume", "stop"}, []string{"cri"}, nil},
		// What all others have shown above.
		{
			[]string{"operations", "--param", "operations=create,start,exec,stop,remove"},
			[]string{"first_instruction", "exec", "stop"},
			nil, usable(t, "native", "cri"),
		},
		{[]string{"operations", "--param", "operations=create,start,kill,remove"}, []string{"kill"}, []string{"cri"}, nil},
		{[]string{"throughput", "--concurrency", "2", "--param", "iterations=2"}, []string{"rate", "errors"}, nil, nil},
		{[]string{"population", "--factor", "population=2"}, []string{"first_instruction"}, nil, nil},
		{[]string{"density", "--count", "2", "--param", "idle=100ms"}, []string{"memory", "memory.inside", "containers", "start.last"}, nil, nil},
		{
			[]string{"idle", "--param", "time=200ms", "--param", "calm=0s"},
			[]string{"idle.memory", "idle.processes", "idle.wakeups", "idle.cpu"},
			nil, nil,
		},
		{
			shortHost(),
			[]string{
				"idle.memory", "idle.memory.engine", "idle.disk.engine", "start.total", "cpu.single", "cpu.all", "memory.copy",
				"disk.randwrite.iops", "throughput.rate", "density.memory", "density.start.each", "build.total", "build.rebuild",
				"compose.up", "compose.down",
			},
			nil, usable(t, "docker", "podman"),
		},
		{
			[]string{"build", "--param", "files=4", "--size", "1MiB", "--param", "steps=2"},
			[]string{"build.total", "build.rebuild", "build.run", "build.size"},
			nil, usable(t, "docker", "podman"),
		},
		{
			[]string{
				"postgres", "--param", "scale=1", "--param", "clients=2", "--param", "warmup=10ms",
				"--param", "time=" + partTime("300ms", "600ms"), "--param", "write_time=" + partTime("500ms", "800ms"),
				"--param", "parts=" + strings.Join(parts, ","),
			},
			[]string{parts[0] + ".time.p50", parts[len(parts)-1] + ".rate", "postgres.ready"},
			nil, servers,
		},
	}
	if !testing.Short() { // whose programs take whole seconds
		tests = append(tests, experimentTest{
			[]string{
				"host-tools", "--param", "idle.time=200ms", "--param", "start.starts=2", "--param", "cpu.time=2s",
				"--param", "memory.total=64MiB", "--param", "disk.time=1s", "--param", "disk.size=4MiB",
				"--param", "net-throughput.time=1s", "--param", "density.count=2", "--param", "build.files=2",
				"--param", "build.size=64KiB", "--param", "compose.services=2", "--param", "compose.tool=bare",
			},
			[]string{
				"start.total", "cpu.single", "cpu.all", "memory.read", "memory.write", "disk.randwrite.iops", "throughput.rate",
				"density.containers", "compose.up",
			},
			nil, usable(t, "docker"),
		})
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			p := newTestEnv(t)
			if tt.args[0] == "postgres" { // whose cells have their data on the same, engines too
				onDisk(t, p)
			}
			if err := os.Chmod(p.dir, 0o711); err != nil { // not every server runs as root
				t.Fatal(err)
			}
			of := engines
			if tt.engines != nil {
				of = tt.engines
			}
			args := append([]string{
				"run", "--json", "--engine", strings.Join(of, ","), "--blocks", "1", "--warmup", "0",
				"--washout", "off", "--precision", "off", "--no-control",
			}, tt.args...)
			var d report.Document
			result := p.begin(t, args...).endWithin(t, 4*testTimeout) // eight servers, each with a cluster of its own
			if result.code != 0 && result.code != someFailed {
				t.Fatalf("exit code %d\n%s", result.code, result.stderr)
			}
			decode(t, result.stdout, &d)
			if result.code == someFailed {
				t.Fatalf("%+v\n%s", d.Failed, result.stderr)
			}
			for _, name := range tt.want {
				wantValues(t, d, name, tt.lack)
			}
			p.nothingLeft(t)
		})
	}
}

// wantValues wants a value of a metric from each engine but those that lack it.
func wantValues(t *testing.T, d report.Document, metric string, lack []string) {
	t.Helper()
	i := slices.IndexFunc(d.Metrics, func(m report.Metric) bool { return m.Name == metric })
	if i < 0 {
		t.Errorf("no metric %s in the report", metric)
		return
	}
	for _, c := range d.Metrics[i].Conditions {
		for _, r := range c.Rows {
			cannot := slices.Contains(lack, r.Cell)
			if r.Unsupported != cannot || (r.N == 1) == cannot {
				t.Errorf("%s of %s: %d values, unsupported %v, failed %d", metric, r.Cell, r.N, r.Unsupported, r.Failed)
			}
		}
	}
}
