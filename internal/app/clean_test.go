package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a dead run left is found and removed, once; where there is nothing that is no error.
func TestClean(t *testing.T) {
	const id, running = "20261122-000000-abcd", "20261122-000000-live"
	a, err := New(Config{}).WithState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }() // it has no sessions
	live, err := a.newRunDir(running, nil)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := a.newRunDir(id, []Instance{{Name: "native", Driver: "native"}})
	if err == nil {
		err = dead.close() // as its death does
	}
	if err != nil {
		t.Fatal(err)
	}
	clean := func(c CleanOptions) (ours []string) {
		t.Helper()
		found, err := a.Clean(t.Context(), c)
		if err != nil || found == nil {
			t.Fatalf("%v, %v", found, err)
		}
		for _, l := range found {
			if filepath.Dir(filepath.Dir(l.ID)) == a.state { // others are of other runs on this machine
				ours = append(ours, l.Run)
			}
		}
		return ours
	}
	for _, c := range []CleanOptions{{Runs: []string{id}, DryRun: true}, {Runs: []string{id}}} {
		if ours := clean(c); !slices.Equal(ours, []string{id}) {
			t.Errorf("%+v: of %q, want %s", c, ours, id)
		}
	}
	isStored := func(context.Context, string) bool { return true }
	if ours := clean(CleanOptions{Runs: []string{id}, Stored: isStored}); len(ours) > 0 {
		t.Errorf("again: of %q", ours)
	}
	for name, kind := range map[string]Kind{id: UnknownRun, "../x": BadRunID} {
		var p *Problem
		if found, err := a.Clean(t.Context(), CleanOptions{Runs: []string{name}}); found != nil || !errors.As(err, &p) ||
			p.Kind != kind {
			t.Errorf("%s: %v, %v; want %s", name, found, err, kind)
		}
	}
	if found, err := a.Clean(t.Context(), CleanOptions{Runs: []string{running}}); found != nil || err == nil {
		t.Errorf("a run that is under way: %v, %v", found, err)
	}
	if err := live.remove(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(a.state, "runs")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := New(Config{}).Clean(t.Context(), CleanOptions{}); !errors.Is(err, errNoState) {
		t.Errorf("without a state directory: %v", err)
	}
}

// Two dead runs have used engines of one name that are not the same. One can still be asked: its run's directory goes.
func TestCleanOfSameName(t *testing.T) {
	const gone, there = "20261122-000000-gone", "20261122-000000-here"
	a, err := New(Config{}).WithState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }() // it has no sessions
	for id, used := range map[string]Instance{
		gone:  {Name: "mine", Driver: "docker", Options: map[string]string{"host": "unix://" + t.TempDir() + "/none"}},
		there: {Name: "mine", Driver: "native"},
	} {
		dead, err := a.newRunDir(id, []Instance{used})
		if err == nil {
			err = dead.close() // as its death does
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = a.Clean(t.Context(), CleanOptions{Runs: []string{gone, there}})
	if p := (*Problem)(nil); !errors.As(err, &p) || p.Kind != NotAsked || p.Run != gone {
		t.Errorf("Clean = %v, want that run %s was not asked for", err, gone)
	}
	for id, stays := range map[string]bool{gone: true, there: false} {
		if _, err := os.Stat(a.runDir(id)); (err == nil) != stays {
			t.Errorf("directory of run %s: %v, want that it stays: %v", id, err, stays)
		}
	}
}
