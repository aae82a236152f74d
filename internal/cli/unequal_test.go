package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/report"
)

// A hostLimit is what a machine may have.
type hostLimit struct {
	cpus   float64 // 0 = no limit
	writes int     // to its disk, per second; 0 = no limit
}

// group makes a control group with a limit, and returns what puts a process and all that it starts into it.
// It is removed after what the test begins later has ended.
func (l hostLimit) group(t *testing.T, name string) (attach func(pid int)) {
	t.Helper()
	if l == (hostLimit{}) {
		return func(int) {}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	h, err := cgroup.Detect("/")
	must(err)
	path := fmt.Sprintf("/tare-test-%d-%s", os.Getpid(), name)
	must(h.Create(path, cgroup.Limits{CPUs: l.cpus}))
	t.Cleanup(func() {
		if err := h.Remove(context.Background(), path); err != nil {
			t.Error(err)
		}
	})
	if l.writes > 0 {
		dir, err := h.Dir(path, "blkio")
		must(err)
		disk := diskOf(t, os.TempDir())
		file, text := "blkio.throttle.write_iops_device", fmt.Sprintf("%s %d", disk, l.writes)
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			file, text = "io.max", fmt.Sprintf("%s wiops=%d", disk, l.writes)
		}
		must(os.WriteFile(filepath.Join(dir, file), []byte(text), 0))
	}
	return func(pid int) { t.Helper(); must(h.Attach(path, pid)) }
}

// diskOf is the number of the disk, no partition, on which a file lies.
func diskOf(t *testing.T, name string) string {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Stat(name, &s); err != nil {
		t.Fatal(err)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))
	// A partition is a directory in that of its disk.
	if text, err := os.ReadFile("/sys/dev/block/" + number + "/../dev"); err == nil {
		number = strings.TrimSpace(string(text))
	}
	return number
}

// unequal measures hosts a and b, so often, and returns what is said of b against a in each of some metrics.
func (s *sshds) unequal(t *testing.T, times int, metrics []string, args ...string) (all []map[string]report.Effect) {
	t.Helper()
	for seed := range times {
		p := newTestEnv(t)
		p.env = append(p.env, "TARE_SSH="+s.ssh)
		var d report.Document
		decode(t, p.must(t, append([]string{
			"run", args[0], "--on", "a,b", "--json", "--engine", "native", "--primary", strings.Join(metrics, ","),
			"--seed", strconv.Itoa(seed), "--blocks", "10", "--warmup", "0", "--washout", "off", "--precision", "off",
			"--no-control",
		}, args[1:]...)...).stdout, &d)
		said := map[string]report.Effect{}
		for _, metric := range metrics {
			said[metric] = effectOn(t, d, metric)
			e := said[metric]
			t.Logf("%s: %.3f [%.3f, %.3f] %s", metric, *e.Estimate, *e.Low, *e.High, e.Verdict)
		}
		all = append(all, said)
	}
	return all
}

// effectOn is what a report says of the second of two machines in a metric.
func effectOn(t *testing.T, d report.Document, metric string) report.Effect {
	t.Helper()
	i := slices.IndexFunc(d.Metrics, func(m report.Metric) bool { return m.Name == metric })
	if i < 0 || len(d.Metrics[i].Conditions[0].Rows) != 2 {
		t.Fatalf("the report is not of %s on two machines: %+v", metric, d.Metrics)
	}
	e := d.Metrics[i].Conditions[0].Rows[1].Effect
	if e == nil || e.Low == nil || e.High == nil {
		t.Fatalf("%s has no interval: %+v", metric, e)
	}
	return *e
}

// wholeHost is an experiment of a whole host of plain processes, which its limits hold for, in which little but CPU
// and disk is measured.
const wholeHost = `name: whole
doc: What two hosts do that differ by known factors
workload: host
params:
  idle.time: 200ms
  idle.calm: 0s
  cpu.kernels: integer
  cpu.threads: 1
  cpu.time: 660ms
  memory.time: 200ms
  memory.size: 4MiB
  disk.patterns: randwrite
  disk.size: 16MiB
  disk.depth: 8
  disk.time: 400ms
  net-throughput.time: 1s
  density.count: 1
  density.idle: 100ms
factors: {engine: [native]}
`

// Two machines that differ by a known factor are told apart, and their intervals have it; one and the same
// is not told apart. The kernel gives each so much, and less than it could have beside other work.
func TestPlantedUnequalHosts(t *testing.T) {
	sshd, err := findSSHD()
	if os.Geteuid() != 0 || err != nil {
		t.Skipf("two sshds take root and OpenSSH's server: %v", err)
	}
	if testing.Short() {
		return // it counts how often it is wrong; TestOnRealSSH has the rest
	}
	t.Setenv("TMPDIR", "/var/tmp") // which is on a disk
	compute := []string{"cpu", "--param", "kernels=integer", "--param", "threads=1", "--param", "time=660ms"}
	computeBriefly := append(slices.Clone(compute[:len(compute)-1]), "time=200ms")
	write := []string{
		"disk", "--param", "patterns=randwrite", "--param", "size=16MiB", "--param", "depth=8", "--param", "time=400ms",
	}
	whole := filepath.Join(t.TempDir(), "whole.yaml")
	if err := os.WriteFile(whole, []byte(wholeHost), 0o600); err != nil {
		t.Fatal(err)
	}
	cpu, disk := []string{"cpu.single"}, []string{"disk.randwrite.iops"}
	for name, test := range map[string]struct {
		limits  [2]hostLimit
		args    []string
		metrics []string
		ratio   float64 // of the second machine to the first, in each metric
		// The truth is known to so much: the Go runtime's own threads and tare need some of the CPU time, and a
		// limit of a disk counts in parts of a second.
		within float64
		twice  bool // both are one machine
	}{
		"half the CPU":  {[2]hostLimit{{cpus: 0.4}, {cpus: 0.2}}, compute, cpu, 0.5, 0.04, false},
		"half the disk": {[2]hostLimit{{writes: 2000}, {writes: 1000}}, write, disk, 0.5, 0.01, false},
		"half of both": {
			[2]hostLimit{{0.4, 2000}, {0.2, 1000}}, []string{whole}, slices.Concat(cpu, disk), 0.5, 0.04, false,
		},
		"the same":       {[2]hostLimit{}, computeBriefly, cpu, 1, 0, false},
		"the same twice": {[2]hostLimit{}, computeBriefly, cpu, 1, 0, true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			times := 2
			if test.ratio == 1 {
				times = 20 // of two runs one may be chance, even if every second one finds a difference
			}
			first, second := test.limits[0].group(t, "a"), test.limits[1].group(t, "b")
			h := startUnequal(t, sshd, test.twice)
			first(h.pids["a"])
			if !test.twice {
				second(h.pids["b"])
			}
			missed, claimed := map[string]int{}, map[string]int{}
			for _, said := range h.unequal(t, times, test.metrics, test.args...) {
				for metric, e := range said {
					missed[metric] += one(test.ratio*(1+test.within) < *e.Low || test.ratio*(1-test.within) > *e.High)
					claimed[metric] += one(e.Verdict == "worse" || e.Verdict == "better")
					if test.ratio < 1 && e.Verdict != "worse" {
						t.Errorf("%s: half as fast is %s", metric, e.Verdict)
					}
				}
			}
			for _, metric := range test.metrics {
				wantAtMost(t, missed[metric], times, 0.05, "intervals of "+metric+" missed the truth")
				if test.ratio == 1 {
					wantAtMost(t, claimed[metric], times, 0.05, "runs found a difference between a machine and itself")
				}
			}
		})
	}
}

// startUnequal starts machines a and b, or one that has both names.
func startUnequal(t *testing.T, sshd string, twice bool) *sshds {
	t.Helper()
	names := []string{"a", "b"}
	if twice {
		names = names[:1]
	}
	h := startSSHDs(t, sshd, names...)
	h.trust(t)
	if twice {
		h.alias(t, "b", "a")
	}
	return h
}
