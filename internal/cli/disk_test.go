package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// A disk that fills up stops the run with an error that names the file and
// says how to go on; what was stored stays, and resume finishes the run.
func TestDiskFull(t *testing.T) {
	p := newTestEnv(t)
	disk := filepath.Join(p.dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=400k"); err != nil {
		t.Skipf("a small disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p.store = filepath.Join(disk, "tare.db")

	args := small([]string{"native"}, "--blocks", "100", "--label", "disk=small")
	result := p.tare(t, args...)
	if result.code != 1 {
		t.Errorf("exit code %d, want 1\n%s", result.code, result.stderr)
	}
	p.nothingLeft(t)
	got := p.last(t)
	for _, part := range []string{
		p.store, "no space left", "tare resume " + got.Header.ID[len("20260314-150926-"):],
		"0 B of 400 KiB are free in the file system at " + disk + "; ",
	} {
		if !strings.Contains(result.stderr, part) {
			t.Errorf("it does not say %q:\n%s", part, result.stderr)
		}
	}
	if n := len(got.Samples); n == 0 || got.End != nil {
		t.Errorf("%d trials are stored, finished with %v; want some, and not finished", n, got.End)
	}

	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	p.must(t, "resume")
	finished := p.last(t)
	var scheduled int
	for _, block := range finished.Header.Schedule {
		scheduled += len(block)
	}
	if n := len(finished.Samples); n != scheduled || finished.End == nil || finished.End.Reason != bench.StopBlocks {
		t.Errorf("after resume: %d of %d trials, ended with %+v", n, scheduled, finished.End)
	}
	p.nothingLeft(t)
}

// The state directory and a file of results can be on a full file system too. The message says
// which it is, and everything that was measured stays.
func TestOtherDisksFull(t *testing.T) {
	p := newTestEnv(t)
	disk := filepath.Join(p.dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p.must(t, small([]string{"native"}, "--blocks", "30")...)
	stored := len(p.last(t).Samples)
	where := "of 64 KiB are free in the file system at " + disk + "; "
	check := func(args ...string) {
		t.Helper()
		result := p.tare(t, args...)
		for _, part := range []string{"no space left", where} {
			if result.code != 1 || !strings.Contains(result.stderr, part) {
				t.Errorf("%q: exit code %d; it does not say %q:\n%s", args, result.code, part, result.stderr)
			}
		}
	}
	check("export", "last", "-o", filepath.Join(disk, "run.jsonl"))
	check(append(small([]string{"native"}, "--blocks", "30"), "-o", filepath.Join(disk, "also.jsonl"))...)
	if got := p.runs(t); len(got) != 2 || len(got[0].Samples)+len(got[1].Samples) <= stored {
		t.Errorf("%d runs are stored, want both, and trials of each", len(got))
	}
	if err := os.WriteFile(filepath.Join(disk, "fill"), make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	check(append(small([]string{"native"}), "--state", filepath.Join(disk, "state"))...)
	if got := p.runs(t); len(got) != 2 {
		t.Errorf("%d runs are stored, want 2", len(got))
	}
}

// Runs at the same time share a store and a state directory, and clean takes
// nothing of runs that are under way.
func TestTwoRunsAtOnce(t *testing.T) {
	t.Parallel() // it asserts no time
	p := newTestEnv(t)
	engines := usable(t, "native", "floor", "runc")
	both := []*process{p.begin(t, small(engines, "--blocks", "12")...), p.begin(t, small(engines, "--blocks", "12")...)}
	p.await(t, both[0], 2)
	for range 5 {
		if result := p.must(t, "clean"); result.stdout != "" {
			t.Errorf("clean beside runs: %s", result.stdout)
		}
	}
	ends := make([]programResult, len(both))
	var wg sync.WaitGroup
	for i, r := range both {
		wg.Go(func() { ends[i] = r.end(t) })
	}
	wg.Wait()
	for i, s := range ends {
		if s.code != 0 {
			t.Errorf("run %d: exit code %d\n%s", i, s.code, s.stderr)
		}
	}
	all := p.runs(t)
	if len(all) != 2 {
		t.Fatalf("%d runs are stored, want 2", len(all))
	}
	wantTrials(t, all[0], all[1])
	wantTrials(t, all[1], all[0])
	p.nothingLeft(t)
}
