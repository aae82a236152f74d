package app

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// What several engines know of is listed once: the control group of a run last, when the containers in it are gone,
// and a process first.
func TestListedOnce(t *testing.T) {
	l := func(engine, kind, run string) Leftover {
		return Leftover{Leftover: bench.Leftover{Engine: engine, Kind: kind, Run: run, ID: "/tare/" + run}}
	}
	got := listedOnce([]Leftover{
		l("native", "process", "a"), l("floor", "cgroup", "a"), l("floor", "cgroup", "b"), l("runc", "container", "a"),
		l("docker", "container", "a"), l("containerd", "cgroup", "a"), l("load generator", "process", "a"),
	})
	var engines []string
	for _, g := range got {
		engines = append(engines, g.Engine+" "+g.Kind+" "+g.Run)
	}
	want := []string{
		"native process a", "floor cgroup b", "runc container a", "docker container a", "containerd cgroup a",
	}
	if !slices.Equal(engines, want) {
		t.Errorf("%q, want %q", engines, want)
	}
}

// What an engine could not tell is asked once more when something of it has gone, and stands otherwise.
func TestRemoveAllAsksAgain(t *testing.T) {
	a, err := New(Config{}).WithState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }() // it has no sessions
	untold, stuck := errors.New("half an image hides the others"), errors.New("stuck")
	for _, removal := range []error{nil, stuck} {
		found := []Leftover{{Leftover: bench.Leftover{Kind: "image", ID: "half"}, engine: remover{removal}}}
		_, err := a.removeAll(t.Context(), found, untold, nil, nil)
		if told := errors.Is(err, untold); told != (removal != nil) || removal != nil && !errors.Is(err, removal) {
			t.Errorf("removed with %v: %v", removal, err)
		}
	}
}

// A remover is an engine whose removals end with an error, or none.
type remover struct{ err error }

func (r remover) RemoveLeftover(context.Context, bench.Leftover) error { return r.err }

func (remover) Leftovers(context.Context, func(string) bool) ([]bench.Leftover, error) {
	return nil, nil
}
