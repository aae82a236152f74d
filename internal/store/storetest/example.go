package storetest

import (
	"math"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// Example returns a complete, resumed run with n samples, among them failed
// ones; the same for the same arguments.
func Example(id string, n int) *bench.Run {
	began := time.Date(2026, 11, 20, 9, 30, 0, 123_456_789, time.UTC)
	run := &bench.Run{
		Header: bench.Header{
			ID: id, Tool: "test", Began: began,
			Plan: bench.Plan{
				Name: "example", Workload: "lifecycle", Seed: math.MaxUint64, MinBlocks: 1, MaxBlocks: n/2 + 1,
				Cells: []bench.Cell{
					{Name: "runc", Engine: "runc", Baseline: true, Params: map[string]string{"size": "1"}},
					{Name: "crun", Engine: "crun", Spec: bench.Spec{Limits: bench.Limits{CPUs: 0.5}}},
				},
			},
			Metrics: []bench.Metric{
				{Name: "total", Unit: "s", Better: bench.Lower, Role: bench.Primary, Scale: bench.Ratio},
				{Name: "faults", Unit: "1", Better: bench.Neither, Role: bench.Counter, Scale: bench.Difference},
			},
			Engines: []bench.EngineInfo{{Name: "runc", Driver: "oci", Facts: []bench.Label{{Key: "cgroup", Value: "v2"}}}},
			Host:    bench.HostFacts{Hostname: "here", Memory: 1 << 40},
		},
		End: &bench.End{Time: began.Add(time.Hour), Reason: bench.StopBlocks, Overhead: bench.Overhead{CPU: 1}},
	}
	for i := range n {
		if i%2 == 0 {
			run.Header.Schedule = append(run.Header.Schedule, []int{i / 2 % 2, 1 - i/2%2})
		}
		run.Samples = append(run.Samples, exampleSample(began, i))
	}
	if n > 2 {
		run.Resumptions = []bench.Resumption{{Time: began.Add(time.Minute), Tool: "next", Seq: 2, Host: run.Header.Host}}
	}
	return run
}

func exampleSample(began time.Time, i int) bench.Sample {
	s := bench.Sample{
		Trial: bench.Trial{Seq: i, Block: i / 2, Cell: i % 2}, Began: began.Add(time.Duration(i) * time.Second),
		Elapsed: time.Duration(i) * time.Millisecond, Outcome: bench.OK, Values: []float64{1 / float64(i+1), math.NaN()},
		Applied: &bench.Applied{Runtime: "runc", Network: "none", Limits: bench.Limits{Pids: int64(i % 2)}},
	}
	switch i % 7 {
	case 3:
		s.Outcome, s.Operation, s.Reason, s.Values = bench.Failed, "total", "create: no such file", nil
	case 5:
		s.Notes = []string{bench.NoteHostClock}
		s.Parts = []bench.PartOutcome{
			{Part: "日本", Workload: "http", Outcome: bench.Unsupported, Reason: `no "port"`},
			{
				Part: "disk", Outcome: bench.OK, Regrouped: &bench.Regrouping{
					With: []string{"disk"}, Usual: []string{"cpu", "disk"},
				},
			},
		}
	case 6:
		s.Counted = time.Duration(i) * time.Microsecond
		s.Series = []bench.Series{
			{Metric: "create", Values: []float64{3, 1 / float64(i), 2}}, {Metric: "日本", Values: []float64{0}},
		}
		s.Distributions = []bench.Distribution{
			{Metric: "rtt", HDR: "HISTFAAAAB542pNpmSzMwMBgyQABzFCaEUoz2X+AMIoBVqsFKQ=="}, {Metric: "日本", HDR: "AA=="},
		}
		s.Trace = &bench.Trace{LeftOut: i, Events: []bench.TraceEvent{
			{Name: "fork"},
			{
				At: time.Microsecond, Name: "日本", Source: "runc:[2:INIT]",
				Attributes: []bench.Label{{Key: "file", Value: "/bin/\x00sh"}, {Key: "file"}},
			},
		}}
	}
	return s
}
