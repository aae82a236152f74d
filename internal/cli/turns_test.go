package cli_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Every workload in which cells can take turns does so, and has values of the same metrics as in whole trials.
// TestPostgresInTurns and TestMeasureTurns have the others.
func TestWorkloadsInTurns(t *testing.T) {
	t.Parallel() // no time is asserted
	engines := strings.Join(usable(t, "native", "runc"), ",")
	if !strings.Contains(engines, ",") {
		engines += "," + engines + ",name=other"
	}
	for workload, options := range map[string]string{
		"disk":           "--param patterns=randread,read --param size=4MiB --param time=60ms",
		"memory":         "--param time=60ms --param size=4MiB --param mappings=2",
		"net-rtt":        "--network host --param pings=5000 --param warmup=100",
		"net-throughput": "--network host --param time=400ms --param warmup=20ms",
		"http":           "--factor size=1KiB --param connections=4 --param time=400ms --param warmup=20ms",
		"lifecycle":      "--param starts=3",
		"quick": "--param cpu.time=40ms --param memory.time=40ms --param memory.size=1MiB --param disk.size=4MiB " +
			"--param net-rtt.pings=5000 --param net-throughput.time=400ms",
	} {
		t.Run(workload, func(t *testing.T) {
			t.Parallel() // as above
			if workload == "memory" && !proc.MakesHugePages("/") {
				return // it takes none in normal pages
			}
			p := newTestEnv(t)
			args := slices.Concat([]string{"run", workload, "--engine", engines}, strings.Fields(options), []string{
				"--blocks", "1", "--warmup", "0", "--washout", "off", "--precision", "off", "--no-control",
			})
			measure := func() (farOff map[string]string) {
				p.must(t, append(args, "--interleave", "off")...)
				whole := p.last(t)
				p.must(t, append(args, "--interleave", "20ms")...)
				return wantSameValues(t, whole, p.last(t))
			}
			if first := measure(); len(first) > 0 {
				again := measure() // a busy machine can delay one start; a wrong unit is wrong again
				for name, what := range first {
					if again[name] != "" {
						t.Errorf("%s; again: %s", what, again[name])
					}
				}
			}
			p.nothingLeft(t)
		})
	}
}

// Servers that want the same port of the host are not alive together: their trials run whole.
func TestNoTurnsOnOnePort(t *testing.T) {
	t.Parallel() // no time is asserted
	engine := usable(t, "runc", "native")[0]
	port, err := netpath.FreePort(netip.IPv4Unspecified(), "tcp")
	if err != nil {
		t.Fatal(err)
	}
	p := newTestEnv(t)
	p.must(t, "run", "http", "--engine", engine+","+engine+",name=other", "--network", "host", "--param",
		"port="+strconv.Itoa(int(port)), "--factor", "size=1KiB", "--param", "connections=4", "--param", "time=400ms", "--param",
		"warmup=20ms", "--interleave", "auto", "--blocks", "2", "--warmup", "0", "--washout", "off", "--precision", "off",
		"--no-control")
	run := p.last(t)
	for i := range run.Samples {
		s := &run.Samples[i]
		if s.Outcome != bench.OK || !slices.Contains(s.Notes, bench.NoteWhole) || turnsOf(run, s) > 0 {
			t.Errorf("trial %d: %s %s, notes %q", s.Trial.Seq, s.Outcome, s.Reason, s.Notes)
		}
	}
	if run.Header.Plan.Slice == 0 || len(run.Samples) != 4 {
		t.Errorf("turns of %v, %d trials", run.Header.Plan.Slice, len(run.Samples))
	}
	p.nothingLeft(t)
}

// wantSameValues wants the trials of a run to have taken turns, and to have values where those of a whole one have
// them. It returns the values that are of quite another size, by metric and cell.
func wantSameValues(t *testing.T, whole, turns *bench.Run) (farOff map[string]string) {
	t.Helper()
	farOff = map[string]string{}
	if len(turns.Samples) != 2 || len(whole.Samples) != 2 {
		t.Fatalf("%d and %d trials, want 2 each", len(whole.Samples), len(turns.Samples))
	}
	for i := range turns.Samples {
		s := &turns.Samples[i]
		n := slices.IndexFunc(whole.Samples, func(o bench.Sample) bool { return o.Trial.Cell == s.Trial.Cell })
		other := &whole.Samples[n]
		had := turnsOf(turns, s)
		if s.Outcome != bench.OK || slices.Contains(s.Notes, bench.NoteWhole) || had < 2 || turnsOf(whole, other) > 0 {
			t.Errorf("trial %d: %s %s, %v turns, notes %q", s.Trial.Seq, s.Outcome, s.Reason, had, s.Notes)
		}
		want, got := steadyValues(whole, other), steadyValues(turns, s)
		if diff := cmp.Diff(names(want), names(got)); diff != "" {
			t.Errorf("cell %d has values of other metrics (-whole +turns):\n%s", s.Trial.Cell, diff)
		}
		for _, m := range turns.Header.Metrics {
			const much = 50 // times: what is told in another unit, or divided by another time, is far off
			a, b := want[m.Name], got[m.Name]
			if m.Role == bench.Primary && a > 0 && (b < a/much || b > a*much) {
				where := fmt.Sprintf("%s of cell %d", m.Name, s.Trial.Cell)
				farOff[where] = fmt.Sprintf("%s is %v in turns, %v in one go", where, b, a)
			}
		}
	}
	return farOff
}

// dependsOnCounts matches metrics that only trials with enough operations have, or those with enough CPU time.
var dependsOnCounts = regexp.MustCompile(`\.p9|cpu_per_request`)

// steadyValues are the values of a trial that do not depend on how much it got done, without those of stretches.
func steadyValues(run *bench.Run, s *bench.Sample) map[string]float64 {
	all := map[string]float64{}
	for i, m := range run.Header.Metrics {
		told := (m.Role == bench.Primary || m.Role == bench.Detail) && m.StretchOf == ""
		if v, ok := s.Value(i); ok && told && !dependsOnCounts.MatchString(m.Name) {
			all[m.Name] = v
		}
	}
	return all
}

func names(values map[string]float64) (all []string) {
	for name := range values {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// turnsOf is how many turns a trial had; 0 = it ran whole.
func turnsOf(run *bench.Run, s *bench.Sample) (n float64) {
	for i, m := range run.Header.Metrics {
		if v, ok := s.Value(i); ok && (m.Name == "trial.turns" || strings.HasSuffix(m.Name, ".trial.turns")) {
			n += v
		}
	}
	return n
}
