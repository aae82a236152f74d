package app

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/hostsuite"
)

// What is read of the suite for Docker hosts can be compared with what tare measures itself: the cell has the same
// name, and each metric that both have the same unit, scale and direction.
func TestHostSuiteCanBeCompared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	const results = `{
		"timestamp": "2026-01-01T12:00:00Z", "container_start": {"avg_ms": 312.5}, "idle": {"memory_used_mb": 400},
		"sysbench": {"single_eps": 1000, "multi_eps": 2000}, "fio": {"write_iops": 1200},
		"network": {"throughput_gbps": 40}, "build": {"times_seconds": [10, 12]},
		"compose": {"up_seconds": 1, "down_seconds": 2}}`
	if err := os.WriteFile(file, []byte(results), 0o600); err != nil {
		t.Fatal(err)
	}
	store := openStore(t)
	imported, _, err := ImportResults(t.Context(), store, Results{From: hostsuite.Source(), Names: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Open(t.Context(), imported[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	h := &r.Header
	if name := h.Plan.Cells[0].Name; name != "docker" {
		t.Errorf("the cell is %s, want docker", name)
	}
	if len(h.Metrics) < 9 {
		t.Errorf("only %d metrics were read", len(h.Metrics))
	}
	sets, err := hostsuite.Source().Read(&foreign.Input{Files: []foreign.File{foreign.NewFile("results.json", results)}})
	if err != nil {
		t.Fatal(err)
	}
	none := []string{"idle.disk", "memory.rate", "memory.ops", "disk.randwrite.rate"} // which only the suite has
	own := workloadNamed(h.Plan.Workload).Metrics()
	for _, m := range sets[0].Metrics {
		i := slices.IndexFunc(own, func(o bench.Metric) bool { return o.Name == m.Name })
		if (i < 0) != slices.Contains(none, m.Name) {
			t.Errorf("workload %s has %s: %v", h.Plan.Workload, m.Name, i >= 0)
		}
		if i < 0 {
			continue
		}
		if o := own[i]; o.Unit != m.Unit || o.Scale != m.Scale || o.Better != m.Better {
			t.Errorf("%s is in %s (%v, %v), and in %s (%v, %v) of the workload", m.Name, m.Unit, m.Scale, m.Better,
				o.Unit, o.Scale, o.Better)
		}
	}
}
