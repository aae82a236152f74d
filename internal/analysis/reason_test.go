package analysis_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
)

// explained makes a run of two primary metrics, "cpu.rate" and "disk.rate", of
// which the second cell has half, and of counters that differ as named.
func explained(counters map[string]func(cell, block int) float64) *bench.Run {
	rate := func(name string) bench.Metric {
		return bench.Metric{
			Name: name, Title: name, Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio, Doc: "A rate.",
		}
	}
	metrics := []bench.Metric{rate("cpu.rate"), rate("disk.rate")}
	var of []func(cell, block int) float64
	for name, f := range counters {
		metrics = append(metrics,
			bench.Metric{
				Name: name, Title: name, Unit: "1", Better: bench.Neither, Role: bench.Counter,
				Scale: bench.Difference, Doc: "A count.",
			})
		of = append(of, f)
	}
	run := analysistest.Run(analysistest.Shape{
		Seed: 1, Blocks: 12, NoControl: true, Metrics: metrics,
		Cells: []analysistest.Cell{{Name: "native"}, {Name: "slow", Factor: 0.5}},
	})
	for i := range run.Samples {
		s := &run.Samples[i]
		for j, f := range of {
			s.Values[2+j] = f(s.Trial.Cell, s.Trial.Block)
		}
	}
	return run
}

// counted is base in the first cell and n in the other, by block a little more.
func counted(base, n float64) func(cell, block int) float64 {
	return func(cell, block int) float64 {
		if cell == 0 {
			return base
		}
		return n + float64(block%3)
	}
}

func TestReasonsGoWithTheirMetric(t *testing.T) {
	tests := []struct {
		name      string
		counters  map[string]func(cell, block int) float64
		cpu, disk []string
	}{
		{
			"a cause before what it leads to, however much that is",
			map[string]func(int, int) float64{"inside.throttled": counted(0, 40), "inside.waits": counted(100_000, 100)},
			[]string{"inside.throttled", "inside.waits"},
			[]string{"inside.throttled", "inside.waits"},
		},
		{
			"the container's own before the machine's, and nothing twice",
			map[string]func(int, int) float64{
				"inside.page_faults": counted(100, 900), "host.page_faults": counted(100, 900), "host.forks": counted(100, 900),
			},
			[]string{"inside.page_faults", "host.forks"},
			[]string{"inside.page_faults", "host.forks"},
		},
		{
			"what another part of the trial did is none",
			map[string]func(int, int) float64{"cpu.inside.throttled": counted(0, 40), "disk.inside.block_limit": counted(0, 30)},
			[]string{"cpu.inside.throttled"},
			[]string{"disk.inside.block_limit"},
		},
		{
			"nor what the server counted for another part",
			map[string]func(int, int) float64{"cpu.server.syncs": counted(1, 40), "disk.server.wal": counted(1, 30)},
			[]string{"cpu.server.syncs"},
			[]string{"disk.server.wal"},
		},
		{
			"what differs by less than a tenth, by chance or not at all is none",
			map[string]func(int, int) float64{
				"host.forks": counted(1000, 1040), "host.swap_ins": func(int, int) float64 { return 7 },
				"host.interrupts":   func(_, block int) float64 { return float64(block * 7919 % 13) },
				"inside.migrations": func(int, int) float64 { return math.NaN() },
			},
			nil,
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := map[string][]string{}
			for _, r := range analyze(t, explained(tt.counters)).Reasons {
				if len(r.For) == 0 || r.Cell != 1 {
					t.Errorf("%s of cell %d is for %v", r.Metric.Name, r.Cell, r.For)
				}
				for _, e := range r.For {
					got[e.Metric] = append(got[e.Metric], r.Metric.Name)
				}
			}
			if diff := cmp.Diff(tt.cpu, got["cpu.rate"]); diff != "" {
				t.Errorf("cpu (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.disk, got["disk.rate"]); diff != "" {
				t.Errorf("disk (-want +got):\n%s", diff)
			}
		})
	}
}

// A counter that rises and falls with the metric is told from one that differs
// as much and does not.
func TestReasonsSayWhatGoesTogether(t *testing.T) {
	run := explained(map[string]func(int, int) float64{"inside.a": counted(0, 0), "inside.b": counted(0, 0)})
	column := map[string]int{}
	for i, m := range run.Header.Metrics {
		column[m.Name] = i
	}
	base := map[int]float64{}
	for _, s := range run.Samples {
		if s.Trial.Cell == 0 {
			base[s.Trial.Block] = s.Values[column["cpu.rate"]]
		}
	}
	for i := range run.Samples {
		s := &run.Samples[i]
		if s.Trial.Cell == 0 {
			continue
		}
		s.Values[column["inside.a"]] = 1000 * base[s.Trial.Block] / s.Values[column["cpu.rate"]]
		s.Values[column["inside.b"]] = 2000 + float64(s.Trial.Block%2)
	}
	var first analysis.Reason
	for _, r := range analyze(t, run).Reasons {
		if r.Metric.Name == "inside.a" {
			first = r
		}
	}
	if len(first.For) != 2 || first.For[0].Metric != "cpu.rate" || first.For[0].Correlation > -0.999 {
		t.Errorf("%+v, want one that falls as the rate rises", first.For)
	}
}
