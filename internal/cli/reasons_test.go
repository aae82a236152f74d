package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/pack"
	"github.com/tare-bench/tare/internal/report"
)

// A plantedCause is something planted that makes a container slower, by how much is
// known, and the counter that has to name it.
type plantedCause struct {
	engine string // that must be here
	plant  func(t *testing.T, p *testEnv) (args []string)
	metric string
	reason string
	short  shortForm
	// truth lies between low and high, as far as this run knows them.
	truth func(d report.Document, cell report.Row, why report.Reason) (low, truth, high float64)
}

// A shortForm is what the short form wants of a cause.
type shortForm int

const (
	isCounted shortForm = iota // its counter counts more in one block
	isNamed                    // it is found to be a reason, which one cause shows for all
)

// ratio is a truth about the cell against its baseline, and value one about the
// cell alone.
func ratio(truth float64) func(report.Document, report.Row, report.Reason) (float64, float64, float64) {
	return func(_ report.Document, r report.Row, _ report.Reason) (float64, float64, float64) {
		return *r.Effect.Low, truth, *r.Effect.High
	}
}

func value(truth float64) func(report.Document, report.Row, report.Reason) (float64, float64, float64) {
	return func(_ report.Document, r report.Row, _ report.Reason) (float64, float64, float64) {
		return *r.Low, truth, *r.High
	}
}

func causes() map[string]plantedCause {
	// A trial's time is six periods of the CPU quota long, but for the tenth that is
	// for warm-up: a part of a period more would be all work, or none.
	compute := []string{"cpu", "--param", "kernels=integer", "--param", "threads=1", "--param", "time=660ms"}
	return map[string]plantedCause{
		"a CPU quota of half a core": {
			engine: "runc",
			plant: func(*testing.T, *testEnv) []string {
				return append(compute, "--engine", "runc", "--factor", "cpus=unlimited,0.5")
			},
			metric: "cpu.single", reason: "inside.throttled",
			// Half a core is for all threads of the container, and the Go runtime's own
			// take up to 1.5 % of that (1.1 % was seen) from the one that computes. What
			// the container without a quota loses to others, the one with it makes up for.
			truth: func(d report.Document, r report.Row, _ report.Reason) (float64, float64, float64) {
				return *r.Effect.Low * (1 - waited(d)), 0.5, *r.Effect.High / 0.985
			},
		},
		"a second process on the same core": {
			engine: "runc",
			plant: func(t *testing.T, p *testEnv) []string {
				// In turns it would be at work in those of the other cell, too.
				return append(append(compute, "--factor", "cpuset=0", "--interleave", "off"), p.runWithCause(t, "runc.start.steal=0")...)
			},
			metric: "cpu.single", reason: "inside.cpu_wait", truth: ratio(0.5),
		},
		"a limit of 500 writes per second on the disk": {
			engine: "runc",
			plant: func(t *testing.T, p *testEnv) []string {
				onDisk(t, p)
				return append([]string{
					"disk", "--param", "patterns=randwrite", "--param", "size=16MiB", "--param", "depth=8", "--param", "time=400ms",
				},
					p.runWithCause(t, "runc.start.wiops=500")...)
			},
			metric: "disk.randwrite.iops", reason: "inside.block_limit", truth: value(500),
		},
		"a memory limit below the working set": {
			engine: "runc",
			plant: func(t *testing.T, p *testEnv) []string {
				onDisk(t, p)
				return []string{
					"disk", "--engine", "runc", "--factor", "memory=unlimited,40MiB", "--primary", "disk.read.rate",
					"--param", "patterns=read", "--param", "direct=no", "--param", "size=64MiB", "--param",
					"depth=1", "--param", "time=400ms",
				}
			},
			metric: "disk.read.rate", reason: "inside.refaults",
			// All that is read had been dropped before: as many pages as were read in
			// that time, and in a tenth of it to warm up.
			truth: func(_ report.Document, r report.Row, why report.Reason) (float64, float64, float64) {
				return *r.Low * 0.4 * 0.9, why.Value * float64(os.Getpagesize()), *r.High * 0.44 * 1.1
			},
		},
		"a limit of rate on the veth": {
			engine: "podman",
			plant: func(t *testing.T, p *testEnv) []string {
				// A runtime of Podman's is one that its configuration names.
				text := fmt.Sprintf("[engine.runtimes]\nslow = [%q]\n", p.runtime(t, "runc.start.rate=100mbit"))
				name := filepath.Join(p.dir, "containers.conf")
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				p.env = append(p.env, "CONTAINERS_CONF="+name)
				return []string{
					"net-throughput", "--engine", "podman", "--network", "bridge", "--factor",
					"runtime=runc,slow", "--param", "time=400ms",
				}
			},
			metric: "throughput.rate", reason: "inside.link_held_back",
			// Of each frame of 1514 bytes, 66 are headers.
			truth: value(100e6 / 8 * 1448 / 1514),
		},
		"requests of 4 KiB in place of 128": {
			engine: "runc",
			plant: func(t *testing.T, p *testEnv) []string {
				onDisk(t, p)
				return []string{
					"disk", "--engine", "runc", "--factor", "sequential_block=128KiB,4KiB", "--primary",
					"disk.read.rate", "--syscalls",
					"--param", "patterns=read", "--param", "io=threads", "--param", "direct=no", "--param", "size=16MiB", "--param",
					"depth=1", "--param", "time=200ms",
				}
			},
			metric: "disk.read.rate", reason: "inside.syscalls", short: isNamed,
			// One for each 4 KiB that were read in that time, in a tenth of it to warm up,
			// and few others.
			truth: func(_ report.Document, cell report.Row, why report.Reason) (float64, float64, float64) {
				return *cell.Low * 0.2 / 4096, why.Value, *cell.High*0.22/4096 + 3000
			},
		},
		"a port that a program of the engine passes on": {
			engine: "docker",
			plant: func(*testing.T, *testEnv) []string {
				return []string{"net-throughput", "--engine", "docker", "--network", "bridge,published", "--param", "time=400ms"}
			},
			metric: "throughput.rate", reason: "inside.relay_time",
			// What that costs nobody says; but the program was busy for a part of the
			// two CPUs' time at most.
			truth: func(_ report.Document, _ report.Row, why report.Reason) (float64, float64, float64) {
				return 0.01, why.Value, 10
			},
		},
	}
}

// needPostgres ends the test if this host has no PostgreSQL.
func needPostgres(t *testing.T) {
	t.Helper()
	if _, err := (pack.Host{}).Pack("postgres"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("install postgresql to test with it: %v", err)
	}
}

// waited is for how much of the time the baseline waited for a CPU that others had, as
// far as that is among the reasons.
func waited(d report.Document) float64 {
	for _, r := range d.Reasons {
		if r.Metric == "inside.cpu_wait" {
			return r.Baseline / 0.1 // of each 100 ms
		}
	}
	return 0
}

// runWithCause runs an engine once as it is, and once with a cause.
func (p *testEnv) runWithCause(t *testing.T, cause string) []string {
	t.Helper()
	return []string{
		"--engine", "oci,name=as-it-is,binary=runc", "--engine", "oci,name=planted,binary=" + p.runtime(t, cause),
		"--baseline", "as-it-is",
	}
}

// onDisk moves the state to a directory that is no tmpfs: /tmp may be one. What others have written is on the disk
// then, so that nothing waits in its queue behind that.
func onDisk(t *testing.T, p *testEnv) {
	t.Helper()
	syscall.Sync()
	dir, err := os.MkdirTemp("/var/tmp", "tare-cli-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
	p.dir, p.state = dir, filepath.Join(dir, "state")
}

// What makes a container slower is found, and is among the reasons that are named.
//
// The short form wants just that of one cause, and of the others that their counters count more in one
// block: of one run in two, because a machine that runs tests is busy. The long one wants every cause named by
// one of two runs; over all causes, it also counts how many runs do not, and how many intervals miss the size
// that the cause has.
func TestPlantedCausesAreNamed(t *testing.T) {
	var all tally
	for name, c := range causes() {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			require(t, c.engine)
			p := newTestEnv(t)
			blocks, check := "10", c.found // with fewer no counter is a reason: each has to stand out among all of them
			switch {
			case !testing.Short():
				check = func(t *testing.T, p *testEnv, args []string) { c.often(t, p, args, &all) }
			case c.short == isNamed:
			default:
				blocks, check = "1", c.counted
			}
			check(t, p, slices.Concat([]string{"run"}, c.plant(t, p), []string{
				"--blocks", blocks, "--warmup", "0", "--washout", "30ms", "--precision", "off", "--no-control", "--json",
			}))
		})
	}
	wantAtMost(t, all.unnamed, all.runs, 0.05, "runs did not name their cause")
	wantAtMost(t, all.missed, all.runs, 0.05, "intervals missed the size of their cause")
}

// A tally counts runs of all causes, how many did not name theirs, and how many intervals missed its size.
type tally struct{ runs, unnamed, missed int }

// counted wants one of two runs to count more with the cause than without.
func (c *plantedCause) counted(t *testing.T, p *testEnv, args []string) {
	t.Helper()
	for seed := range 2 {
		p.must(t, append(args, "--seed", fmt.Sprint(seed))...)
		run := p.last(t)
		counter := slices.IndexFunc(run.Header.Metrics, func(m bench.Metric) bool { return m.Name == c.reason })
		var without, with float64
		for _, s := range run.Samples {
			v, _ := s.Value(counter) // none is none counted
			if run.Header.Plan.Cells[s.Trial.Cell].Baseline {
				without = v
			} else {
				with = v
			}
		}
		if with > without {
			return
		}
		t.Logf("seed %d: %s is %v, and %v with the cause", seed, c.reason, without, with)
	}
	t.Error("neither of two runs counted it")
}

// found wants one of two runs to name the cause.
func (c *plantedCause) found(t *testing.T, p *testEnv, args []string) {
	t.Helper()
	for seed := range 2 {
		_, wrong := c.measure(t, p, args, seed)
		if wrong == "" {
			return
		}
		t.Logf("seed %d: %s", seed, wrong)
	}
	t.Error("neither of two runs found it")
}

// often wants one of two runs to name the cause, and adds to the tally those that it took.
func (c *plantedCause) often(t *testing.T, p *testEnv, args []string, all *tally) {
	t.Helper()
	for seed := range 2 {
		all.runs++
		d, wrong := c.measure(t, p, args, seed)
		if wrong != "" {
			t.Logf("seed %d: %s", seed, wrong)
			all.unnamed++
			continue
		}
		if wrong := c.misses(d); wrong != "" {
			t.Logf("seed %d: %s", seed, wrong)
			all.missed++
		}
		return
	}
	t.Error("neither of two runs named it")
}

// measure runs it once. It says what is wrong if the cause is not named.
func (c *plantedCause) measure(t *testing.T, p *testEnv, args []string, seed int) (d report.Document, wrong string) {
	t.Helper()
	s := p.tare(t, append(args, "--seed", fmt.Sprint(seed))...)
	if s.code != 0 && s.code != someFailed { // of so few writes, none may end within a trial
		t.Fatalf("exit code %d\n%s", s.code, s.stderr)
	}
	decode(t, s.stdout, &d)
	if row := c.row(d); row.Effect == nil || row.Effect.Verdict != "worse" {
		return d, fmt.Sprintf("not found worse: %+v", row.Effect)
	}
	if c.why(d) == nil {
		return d, fmt.Sprintf("%s is not among the reasons: %+v", c.reason, d.Reasons)
	}
	return d, ""
}

// row is that of the cell with the cause.
func (c *plantedCause) row(d report.Document) report.Row {
	m := d.Metrics[slices.IndexFunc(d.Metrics, func(m report.Metric) bool { return m.Name == c.metric })]
	return m.Conditions[0].Rows[1]
}

// why is the reason that has to be named; nil if it is not.
func (c *plantedCause) why(d report.Document) *report.Reason {
	i := slices.IndexFunc(d.Reasons, func(r report.Reason) bool {
		return r.Metric == c.reason &&
			slices.ContainsFunc(r.For, func(e report.Explained) bool { return e.Metric == c.metric })
	})
	if i < 0 {
		return nil
	}
	return &d.Reasons[i]
}

// misses says how a run that named the cause misses its size.
func (c *plantedCause) misses(d report.Document) string {
	if low, truth, high := c.truth(d, c.row(d), *c.why(d)); low > truth || truth > high {
		return fmt.Sprintf("%v is not between %v and %v", truth, low, high)
	}
	return ""
}
