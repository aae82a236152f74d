package cli_test

import (
	"strings"
	"syscall"
	"testing"
)

// A run that is under way is told from one that was interrupted: nobody is advised to resume
// it, and it is not removed.
func TestRunUnderWay(t *testing.T) {
	p := newPlace(t)
	file := p.write(t, "sleep.yaml", "workload: lifecycle\nspec: {argv: [/tare-agent, sleep, 1s]}\nfactors: {engine: [native]}\n")
	r := p.begin(t, "run", file, "--name", "mine", "--blocks", "90", "--warmup", "0", "--washout", "off", "--no-control")
	p.await(t, r, 2)
	if said := p.must(t, "list"); !strings.Contains(said.stdout, "  running\n") {
		t.Errorf("list:\n%s", said.stdout)
	}
	if said := p.must(t, "list", "--json"); !strings.Contains(said.stdout, `"status": "running"`) {
		t.Errorf("list --json:\n%s", said.stdout)
	}
	for _, format := range []string{"--color=never", "--json", "--markdown"} {
		said := p.must(t, "show", "mine", format)
		wrong := strings.Contains(said.stdout, "resume") || strings.Contains(said.stdout, "not finished")
		if wrong || !strings.Contains(said.stdout, "running") {
			t.Errorf("show %s:\n%s", format, said.stdout)
		}
	}
	p.must(t, "note", "mine", "written meanwhile")
	if said := p.tare(t, "rm", "mine", "--yes"); said.code != 1 || !strings.Contains(said.stderr, "is under way") {
		t.Errorf("rm: exit code %d: %s%s", said.code, said.stdout, said.stderr)
	}
	if said := p.must(t, "rm", "--since", "1h", "--yes"); !strings.Contains(said.stderr, "is under way: it stays") {
		t.Errorf("rm by a filter: %s%s", said.stdout, said.stderr)
	}
	r.signal(t, syscall.SIGINT)
	r.end(t)
	if said := p.must(t, "list"); !strings.Contains(said.stdout, "incomplete") {
		t.Errorf("list of what was interrupted:\n%s", said.stdout)
	}
	if n := len(p.last(t).Header.Remarks); n != 1 {
		t.Errorf("%d notes are kept, want one", n)
	}
	p.must(t, "rm", "mine", "--yes")
	if left := p.runs(t); len(left) > 0 {
		t.Errorf("%d runs are left", len(left))
	}
	p.nothingLeft(t)
}
