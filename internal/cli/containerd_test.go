package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// ownContainerd starts a containerd of the test's own.
func ownContainerd(t *testing.T) *daemon {
	t.Helper()
	require(t, "containerd")
	if _, err := exec.LookPath("containerd"); err != nil || os.Geteuid() != 0 {
		t.Skipf("only root can run a containerd of the test's own: %v", err)
	}
	return startContainerd(t)
}

// A containerd that is killed and started again in the middle of a run costs one
// trial: those before and after count, and nothing is left.
func TestContainerdRestarts(t *testing.T) {
	t.Parallel() // it measures nothing
	d := ownContainerd(t)
	p := newTestEnv(t)
	r := p.begin(t, "run", "lifecycle", "--engine", "native,containerd,name=mine,address="+d.containerdSocket(),
		"--blocks", "20", "--warmup", "0", "--washout", "off", "--precision", "off", "--no-control",
		"--operation-timeout", "10s")
	p.await(t, r, 6)
	awaitTask(t, d)
	kill(t, d.containerd)
	p.awaitFailure(t, r)
	d.beginContainerd(t)
	result := r.end(t)
	got := p.last(t)
	var failed int
	for _, s := range got.Samples {
		switch {
		case s.Outcome == bench.OK:
		case s.Trial.Cell == 0 || s.Outcome != bench.Failed || s.Reason == "":
			t.Errorf("trial %d of cell %d: %s: %q", s.Trial.Seq, s.Trial.Cell, s.Outcome, s.Reason)
		default:
			failed++
			t.Logf("trial %d: %s", s.Trial.Seq, s.Reason)
		}
	}
	if failed != 1 || got.End == nil || got.End.Reason != bench.StopBlocks {
		t.Errorf("%d trials failed, and the run ended with %+v:\n%s", failed, got.End, result.stderr)
	}
	p.nothingLeft(t)
	nothingIn(t, d)
}

// awaitTask waits until a task is there. A containerd 1.6 that is killed while it makes a snapshot instead, between
// the rename of its directory and the commit, can also fail the next trial: the directory is already there.
func awaitTask(t *testing.T, d *daemon) {
	t.Helper()
	for until := time.Now().Add(testTimeout); time.Now().Before(until); time.Sleep(time.Millisecond) {
		tasks, err := filepath.Glob(filepath.Join(d.dir, "containerd-state", "io.containerd.runtime.v2.task", "tare", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(tasks) > 0 {
			return
		}
	}
	t.Fatalf("no task within %v", testTimeout)
}

// awaitFailure waits until a trial of the newest run has failed.
func (p *testEnv) awaitFailure(t *testing.T, r *process) {
	t.Helper()
	failed := func(s bench.Sample) bool { return s.Outcome == bench.Failed }
	for n := 1; ; n++ {
		p.await(t, r, n)
		if slices.ContainsFunc(p.last(t).Samples, failed) {
			return
		}
	}
}

// nothingIn wants that no tare has anything in a containerd.
func nothingIn(t *testing.T, d *daemon) {
	t.Helper()
	out, err := exec.Command("ctr", "--address", d.containerdSocket(), "namespaces", "list", "--quiet").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !slices.Contains(strings.Fields(string(out)), "tare") {
		return
	}
	for _, kind := range []string{"containers", "tasks", "snapshots", "images", "content", "leases"} {
		// to be read
		list, _ := exec.Command("ctr", "--address", d.containerdSocket(), "--namespace", "tare",
			kind, "list").CombinedOutput()
		t.Errorf("left behind in tare's namespace: %s\n%s", kind, list)
	}
}

// Two daemons of a kind are two engines: one run compares them, side by side.
func TestDaemonsSideBySide(t *testing.T) {
	t.Parallel() // nothing is measured
	require(t, "docker")
	d := ownContainerd(t)
	d.begin(t)
	p := newTestEnv(t)
	var doc report.Document
	decode(t,
		p.must(t, "run", "lifecycle", "--json", "--blocks", "1", "--warmup", "0", "--washout", "off", "--precision", "off",
			"--no-control", "--engine", "docker,docker,name=other,host=unix://"+d.socket+
				",containerd,containerd,name=second,address="+d.containerdSocket()).stdout, &doc)
	var names []string
	for _, e := range doc.Runs[0].Engines {
		names = append(names, e.Name+" "+e.Driver)
	}
	if diff := cmp.Diff([]string{"containerd containerd", "docker docker", "other docker", "second containerd"},
		names); diff != "" {
		t.Errorf("engines (-want +got):\n%s", diff)
	}
	wantValues(t, doc, "first_instruction", nil)
	p.nothingLeft(t)
	p.docker = d.socket
	p.nothingLeft(t)
	nothingIn(t, d)
}
