package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run that came in a file is data. Its hooks and programs are whatever the
// file says, so it is never gone on with.
func TestImportedIsNotResumed(t *testing.T) {
	t.Parallel() // nothing is measured
	usable(t, "native")
	from, to := newTestEnv(t), newTestEnv(t)
	trap := filepath.Join(to.dir, "trap")
	experiment := filepath.Join(from.dir, "x.yaml")
	text := "workload: lifecycle\nfactors: {engine: [native]}\nhooks: [{when: before-run, do: command, argv: [touch, " +
		trap + "]}]\n"
	if err := os.WriteFile(experiment, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	from.must(t, "run", experiment, "--blocks", "6", "--warmup", "0")
	if err := os.Remove(trap); err != nil {
		t.Fatalf("the hook did not run where it was written: %v", err)
	}
	lines := strings.SplitAfter(from.must(t, "export", "last").stdout, "\n")
	torn := filepath.Join(to.dir, "torn.jsonl")
	if err := os.WriteFile(torn, []byte(strings.Join(lines[:4], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	to.must(t, "import", torn)
	id := to.last(t).Header.ID
	for args, want := range map[string]string{"resume": "was imported", "resume " + id: "was imported"} {
		if result := to.tare(t, strings.Fields(args)...); result.code != 2 || !strings.Contains(result.stderr, want) {
			t.Errorf("tare %s: exit code %d, %s; want 2 and %q", args, result.code, result.stderr, want)
		}
	}
	if _, err := os.Stat(trap); err == nil {
		t.Error("a hook of an imported run was executed")
	}
}

// The kernel knows mounts by their real paths: a state directory behind a link
// must work, and nothing may be deleted through a mount below it.
func TestStateBehindLink(t *testing.T) {
	t.Parallel() // nothing is measured
	engines := usable(t, "native", "floor", "crun", "runc")
	p := newTestEnv(t)
	if err := os.Mkdir(filepath.Join(p.dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(p.dir, "link")); err != nil {
		t.Fatal(err)
	}
	p.state = filepath.Join(p.dir, "link", "state")
	p.must(t, small(engines)...)
	p.nothingLeft(t)
}

// What a hook leaves running must not hold the run.
func TestHookLeavesSomethingRunning(t *testing.T) {
	t.Parallel() // nothing is measured
	usable(t, "native")
	p := newTestEnv(t)
	experiment := filepath.Join(p.dir, "x.yaml")
	number := filepath.Join(p.dir, "pid")
	text := "workload: lifecycle\nfactors: {engine: [native]}\nhooks: [{when: before-run, do: command, argv: [sh, -c, " +
		"\"sleep 1000 & echo $! >" + number + "\"]}]\n"
	if err := os.WriteFile(experiment, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killNoted(t, number) })                     // it has run all the time
	p.must(t, "run", experiment, "--blocks", "6", "--warmup", "0") // fails if it does not end by itself
}

// A hook that fails says what it said.
func TestHookFails(t *testing.T) {
	usable(t, "native")
	p := newTestEnv(t)
	experiment := filepath.Join(p.dir, "x.yaml")
	text := "workload: lifecycle\nfactors: {engine: [native]}\nhooks: [{when: before-run, do: command, argv: [sh, -c, " +
		"\"echo no such service >&2; exit 3\"]}]\n"
	if err := os.WriteFile(experiment, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	result := p.tare(t, "run", experiment, "--blocks", "6")
	if result.code != 1 || !strings.Contains(result.stderr, "exit status 3: no such service") {
		t.Errorf("exit code %d, %s; want 1 and what the hook said", result.code, result.stderr)
	}
	p.nothingLeft(t)
}
