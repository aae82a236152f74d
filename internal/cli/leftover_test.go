package cli

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// The control group of a run, which several engines know of, is listed once: last, when
// the containers in it are gone.
func TestGroupIsListedOnce(t *testing.T) {
	l := func(engine, kind, run string) leftover {
		return leftover{Leftover: bench.Leftover{Engine: engine, Kind: kind, Run: run, ID: "/tare/" + run}}
	}
	got := groupsOnce([]leftover{
		l("floor", "cgroup", "a"), l("floor", "cgroup", "b"), l("runc", "container", "a"), l("docker", "container", "a"),
		l("containerd", "cgroup", "a"),
	})
	var engines []string
	for _, g := range got {
		engines = append(engines, g.Engine+" "+g.Kind+" "+g.Run)
	}
	if len(got) != 4 || engines[0] != "floor cgroup b" || engines[3] != "containerd cgroup a" {
		t.Errorf("%q", engines)
	}
}

// unreadableFirst is a store of two runs, the newest of which cannot be read.
type unreadableFirst struct{ noRuns }

var errBroken = errors.New("the newest is broken")

func (unreadableFirst) Runs(context.Context) iter.Seq2[bench.RunSummary, error] {
	return func(yield func(bench.RunSummary, error) bool) {
		_ = yield(bench.RunSummary{}, errBroken) && yield(bench.RunSummary{Header: bench.Header{ID: "before"}}, nil)
	}
}

// The run before the newest is not the last one, even if that cannot be read.
func TestLastIsTheNewest(t *testing.T) {
	if id, err := findRun(t.Context(), unreadableFirst{}, "last"); !errors.Is(err, errBroken) {
		t.Errorf("last is %q, %v; want %v", id, err, errBroken)
	}
	if id, err := findRun(t.Context(), unreadableFirst{}, "bef"); id != "before" || err != nil {
		t.Errorf("%q, %v: one that is named is found", id, err)
	}
}
