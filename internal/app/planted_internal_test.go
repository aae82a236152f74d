package app

import (
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// TestStartTimes checks that each metric in which a workload says that a plant shows is one of its own.
func TestStartTimes(t *testing.T) {
	found := 0
	for _, w := range Workloads() {
		starter, ok := w.(bench.Starter)
		if !ok {
			continue
		}
		for _, name := range starter.StartTimes() {
			found++
			if !slices.ContainsFunc(w.Metrics(), func(m bench.Metric) bool { return m.Name == name }) {
				t.Errorf("%s has no metric %q", w.Name(), name)
			}
		}
	}
	if found < 12 {
		t.Errorf("a plant shows in %d metrics, want more", found)
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
