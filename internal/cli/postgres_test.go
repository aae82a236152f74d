package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/shm"
	"github.com/tare-bench/tare/internal/supervise"
)

// shortPostgres measures reads of a server that is a plain process, beside itself.
func (p *testEnv) shortPostgres(t *testing.T, args ...string) []string {
	t.Helper()
	needPostgres(t)
	usable(t, "native")
	if err := os.Chmod(p.dir, 0o711); err != nil { // the server does not run as root
		t.Fatal(err)
	}
	return append([]string{
		"run", "postgres", "--engine", "native,native,name=other", "--param", "parts=read1", "--param", "time=1s",
		"--blocks", "1", "--warmup", "0", "--washout", "off", "--precision", "off",
	}, args...)
}

// Clients that only read take turns.
func TestPostgresInTurns(t *testing.T) {
	p := newTestEnv(t)
	p.must(t, p.shortPostgres(t, "--interleave", "auto", "--param", "scale=1")...)
	run := p.last(t)
	for i, s := range run.Samples {
		sliced := slices.ContainsFunc(s.Series, func(one bench.Series) bool {
			return one.Metric == "read1.rate"+supervise.SlicesSuffix && len(one.Values) > 1
		})
		sliced = sliced && turnsOf(run, &run.Samples[i]) > 1
		if s.Outcome != bench.OK || !sliced || slices.Contains(s.Notes, bench.NoteWhole) {
			t.Errorf("trial %d: %s: %s; took turns: %v, notes %q", s.Trial.Seq, s.Outcome, s.Reason, sliced, s.Notes)
		}
	}
}

// A tare that is killed while it fills the tables of a cluster leaves a server that is a plain process. Clean removes
// it with its shared memory, which outlives it.
func TestKilledWhileFilling(t *testing.T) {
	t.Parallel() // nothing is measured
	p := newTestEnv(t)
	r := p.begin(t, p.shortPostgres(t, "--param", "scale=30")...)
	memory := p.awaitFilling(t, r)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	p.cleans(t)
	for _, o := range memory {
		if o.Exists() {
			t.Errorf("left: %v", o)
		}
	}
}

// awaitFilling waits until a server works in a cluster that is being made, and returns its shared memory. What makes
// the empty cluster before has one process at a time.
func (p *testEnv) awaitFilling(t *testing.T, r *process) (memory []shm.Object) {
	t.Helper()
	state, err := filepath.EvalSymlinks(filepath.Dir(p.state))
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(testTimeout); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		all, err := proc.All("/")
		if err != nil {
			t.Fatal(err)
		}
		var pids []int
		for _, one := range all {
			at, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", one.PID)) // it may have ended
			if strings.HasPrefix(at, state+"/") && filepath.Base(at) == "cluster" {
				pids = append(pids, one.PID)
			}
		}
		if memory, err = shm.Of(pids...); err != nil {
			t.Fatal(err)
		}
		if len(pids) >= 3 && len(memory) >= 2 {
			return memory
		}
	}
	t.Fatalf("no server fills tables after %v; it said:\n%s", testTimeout, &r.stderr)
	return nil
}
