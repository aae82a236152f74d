package app

import (
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
