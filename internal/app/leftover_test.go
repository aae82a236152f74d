package app

import (
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// The control group of a run, which several engines know of, is listed once: last, when
// the containers in it are gone.
func TestGroupIsListedOnce(t *testing.T) {
	l := func(engine, kind, run string) Leftover {
		return Leftover{Leftover: bench.Leftover{Engine: engine, Kind: kind, Run: run, ID: "/tare/" + run}}
	}
	got := uniqueGroups([]Leftover{
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
