package analysistest

import (
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
)

// Foreign is a run of which every text is s, or has it, as far as a store keeps such a run; s is not empty. It has
// two conditions, one with numbers as levels, single operations, everything that an engine can say that it applied,
// two trials that failed, and a rate of transactions.
func Foreign(s string) *bench.Run {
	run := Run(Shape{
		Seed: 16, Blocks: 12, Metrics: foreignMetrics(s), Cells: []Cell{{Name: "not " + s}, {Name: s, Factor: 2}},
		Grid: []bench.Factor{
			{Name: s, Levels: []string{"1", "2", "4"}, Condition: true},
			{Name: s + " too", Levels: []string{s}, Condition: true},
		},
	})
	foreignHeader(&run.Header, s)
	histograms := []string{histogram(1), histogram(2), histogram(1)} // of the two cells and their control
	for i := range run.Samples {
		sample := &run.Samples[i]
		foreignSample(sample, s)
		sample.Distributions = []bench.Distribution{{Metric: s, HDR: histograms[sample.Trial.Cell%3]}}
	}
	lost := &run.Samples[3]
	lost.Outcome, lost.Operation, lost.Reason = bench.Failed, s, s
	lost.Values, lost.Series, lost.Distributions = nil, nil, nil
	part := bench.PartOutcome{Part: s, Workload: s, Outcome: bench.Failed, Reason: s}
	run.Samples[7].Parts, run.Samples[7].Notes = []bench.PartOutcome{part}, []string{s}
	return run
}

// foreignMetrics has two primary ones, of which the second has a foreign name and unit.
func foreignMetrics(s string) []bench.Metric {
	all := Lifecycle()[:9]
	all[1].Name, all[1].Unit = s, s
	all[2].Unit = s
	all = append(all, bench.Metric{Name: "rate", Unit: "1/s", Better: bench.Higher, Role: bench.Detail, Scale: bench.Ratio})
	for i := range all {
		all[i].Title, all[i].Doc = s, s
	}
	return all
}

func foreignHeader(h *bench.Header, s string) {
	h.Plan.Name, h.Plan.Doc, h.Plan.Workload, h.Tool = s, s, s, s
	h.Plan.Whole = []bench.Whole{{Condition: s, Reason: s}}
	h.Plan.Labels, h.Plan.LeftOut = []bench.Label{{Key: s, Value: s}}, []string{s}
	options := map[string]string{s: s}
	for _, name := range []string{"tool", "clients", "scale", "script", "queries"} {
		options[name] = s
	}
	for i := range h.Plan.Cells {
		h.Plan.Cells[i].Params = options
	}
	h.Host = foreignHost(s)
	away := &bench.Away{Host: foreignHost(s), Address: s, RoundTrip: time.Millisecond}
	for i := range h.Engines {
		h.Engines[i] = bench.EngineInfo{
			Name: h.Engines[i].Name, Driver: s, Version: s, Facts: []bench.Label{{Key: s, Value: s}}, Away: away,
		}
	}
	h.Warnings = []bench.Warning{{Code: s, Text: s, Hint: s, Metric: s, Cells: []int{1}}}
	if remark := (bench.Remark{Time: Epoch(), Text: s}); bench.ValidRemark(remark) == nil {
		h.Remarks = []bench.Remark{remark}
	}
}

func foreignHost(s string) bench.HostFacts {
	return bench.HostFacts{
		Hostname: s, MachineID: s, BootID: s, OS: s, Kernel: s, Arch: s, CPU: s, CPUs: 2, Memory: 1 << 30, Cgroup: s,
		Virtual: s, Governor: s, Clock: s, Disks: s, Mitigations: s, Security: s,
	}
}

// histogram has a thousand times, up to so many seconds.
func histogram(seconds int) string {
	h := load.NewHistogram()
	for n := range 1000 {
		h.Add(time.Duration(n*seconds) * time.Millisecond)
	}
	hdr, err := h.Distribution()
	if err != nil {
		panic(err) // histograms that were made here can be written
	}
	return string(hdr)
}

// foreignSample adds a curve and what was applied, which is not the same in all cells.
func foreignSample(sample *bench.Sample, s string) {
	curve := make([]float64, 16)
	for n := range curve {
		curve[n] = sample.Values[1] * float64(n+1)
	}
	sample.Series = []bench.Series{{Metric: s, Values: curve}, {Metric: s + " too", Values: curve}}
	sample.Applied = &bench.Applied{
		Runtime: s, Image: s, Argv: []string{s}, Network: s, Storage: s, Data: s, DataMounts: []string{s},
		Path: []string{s, s}, Mounts: []bench.Mount{{Type: s, Source: s, Target: s}}, Limits: bench.Limits{CPUSet: s},
		Security: bench.Security{Seccomp: s}, Cgroup: strings.Repeat(s, 1+sample.Trial.Cell%3), Builder: s, Maker: s,
		Facts: map[string]string{s: strings.Repeat(s, 1+sample.Trial.Cell%3)},
	}
}

// ForeignTimelines are those of one cell of such a run, with s for every name that a timeline has.
func ForeignTimelines(s string) *timeline.Result {
	tl := Docker(bench.Trial{})
	for i := range tl.Lanes {
		tl.Lanes[i].Name, tl.Lanes[i].Role = s, timeline.Role(s+"x")
	}
	for i := range tl.Tiles {
		tl.Tiles[i].Reason, tl.Tiles[i].Class, tl.Tiles[i].Stack = s, timeline.Class(s), []string{s}
	}
	tl.Spans[0].Name = s
	return &timeline.Result{
		Metric: "first_instruction", Title: s, Cells: []timeline.Cell{TracedCell(1, timeline.Cost{}, tl)},
	}
}
