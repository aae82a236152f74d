package app

import (
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// TestStartTimes checks that each metric of which a plant is said to show in exists.
func TestStartTimes(t *testing.T) {
	var names []string
	for _, w := range Workloads() {
		for _, m := range w.Metrics() {
			names = append(names, m.Name)
		}
	}
	for _, name := range startTimes() {
		if !slices.Contains(names, name) {
			t.Errorf("no workload has the metric %q", name)
		}
	}
}

// TestShowsPlants checks in which workloads a delayed start shows.
func TestShowsPlants(t *testing.T) {
	for name, want := range map[string]bool{
		"lifecycle": true, "start": true, "pull": true, "survey": true, "image": true, "host": true,
		"cpu": false, "memory": false, "disk": false, "net-rtt": false, "http": false, "throughput": false, "density": false,
	} {
		p := &Planned{Workload: workloadNamed(name)}
		if got := p.ShowsPlants(); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	p := &Planned{Workload: workloadNamed("survey"), Plan: bench.Plan{Restrict: []string{"cpu.single"}}}
	if p.ShowsPlants() {
		t.Error("a start shows in the survey, though only the CPU decides")
	}
}
