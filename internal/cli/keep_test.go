package cli_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
)

// A run that is under way is told from one that was interrupted: nobody is advised to resume
// it, and it is not removed.
func TestRunUnderWay(t *testing.T) {
	t.Parallel() // it asserts no time
	p := newTestEnv(t)
	file := p.write(t, "sleep.yaml",
		"workload: lifecycle\nspec: {argv: [/tare-agent, sleep, 1s]}\nfactors: {engine: [native]}\n")
	r := p.begin(t, "run", file, "--name", "mine", "--blocks", "90", "--warmup", "0", "--washout", "off", "--no-control")
	p.await(t, r, 2)
	if result := p.must(t, "list"); !strings.Contains(result.stdout, "  running\n") {
		t.Errorf("list:\n%s", result.stdout)
	}
	if result := p.must(t, "list", "--json"); !strings.Contains(result.stdout, `"status": "running"`) {
		t.Errorf("list --json:\n%s", result.stdout)
	}
	for _, format := range []string{"--color=never", "--json", "--format=markdown"} {
		result := p.must(t, "show", "mine", format)
		wrong := strings.Contains(result.stdout, "tare resume") || strings.Contains(result.stdout, "not finished")
		if wrong || !strings.Contains(result.stdout, "running") {
			t.Errorf("show %s:\n%s", format, result.stdout)
		}
	}
	p.disturbed(t)
	p.must(t, "note", "mine", "written meanwhile")
	if result := p.tare(t, "rm", "mine", "--yes"); result.code != 1 || !strings.Contains(result.stderr, "is under way") {
		t.Errorf("rm: exit code %d: %s%s", result.code, result.stdout, result.stderr)
	}
	// Its container stays, also for somebody with another state directory.
	if result := p.tare(t, "clean", "mine", "--state", t.TempDir()); result.code != 1 ||
		!strings.Contains(result.stderr, "is under way") {
		t.Errorf("clean: exit code %d: %s%s", result.code, result.stdout, result.stderr)
	}
	if result := p.must(t, "rm", "--since", "1h", "--yes"); !strings.Contains(result.stderr, "is under way: it stays") {
		t.Errorf("rm by a filter: %s%s", result.stdout, result.stderr)
	}
	r.signal(t, syscall.SIGINT)
	r.end(t)
	if result := p.must(t, "list"); !strings.Contains(result.stdout, "incomplete") {
		t.Errorf("list of what was interrupted:\n%s", result.stdout)
	}
	if n := len(p.last(t).Header.Remarks); n != 1 {
		t.Errorf("%d notes are kept, want one", n)
	}
	for _, trial := range p.last(t).Samples {
		if trial.Outcome == bench.Failed {
			t.Errorf("trial %d failed: %s", trial.Trial.Seq, trial.Reason)
		}
	}
	p.must(t, "rm", "mine", "--yes")
	if left := p.runs(t); len(left) > 0 {
		t.Errorf("%d runs are left", len(left))
	}
	p.nothingLeft(t)
}

// disturbed wants a run to say that another one is under way, now and in what is stored, and the
// latter to stay so.
func (p *testEnv) disturbed(t *testing.T) {
	t.Helper()
	const says = "1 other run of this machine was under way when this one began ("
	result := p.must(t, "run", "lifecycle", "-e", "native", "--blocks", "1", "--warmup", "0", "--washout", "off")
	got, other := p.last(t), p.runs(t)[0]
	if want := says + other.Header.ID; !strings.Contains(result.stderr, want) {
		t.Errorf("it does not say %q:\n%s", want, result.stderr)
	}
	warned := func(w bench.Warning) bool { return w.Code == analysis.CodeOtherRun && strings.HasPrefix(w.Text, says) }
	if !slices.ContainsFunc(got.Header.Warnings, warned) || slices.ContainsFunc(other.Header.Warnings, warned) {
		t.Errorf("the warnings are %+v, and those of the first %+v", got.Header.Warnings, other.Header.Warnings)
	}
	if result := p.must(t, "show", "last", "--all"); !strings.Contains(result.stdout, "1 other run of this machine") {
		t.Errorf("show:\n%s", result.stdout)
	}
}
