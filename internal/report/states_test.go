package report_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/report"
)

// A state is one thing that a report can look like.
type state struct {
	name string
	runs func() []*bench.Run // one, or those that are compared
	huge bool                // only worth looking at as text

	group   func(*bench.Header) string // of a comparison; nil = as it is without
	running func(*bench.Header) bool   // what is under way; nil = nothing

	timelines func(*bench.Plan) *report.Timelines // nil = none
}

// states are all of them.
func states() []state {
	return []state{
		{name: "normal", runs: single(normal)},
		{name: "precise", runs: single(precise)},
		{name: "same", runs: single(same)},
		{name: "margins", runs: func() []*bench.Run { return []*bench.Run{margins(51)} }},
		{name: "margins-compared", runs: func() []*bench.Run { return []*bench.Run{margins(51), margins(52)} }},
		{name: "noisy", runs: single(noisy)},
		{name: "failures", runs: single(failures)},
		{name: "unsupported", runs: single(unsupported)},
		{name: "few-pairs", runs: single(fewPairs)},
		{name: "few-blocks", runs: single(fewBlocks)},
		{name: "unreliable", runs: single(unreliable)},
		{name: "conditions", runs: single(conditions)},
		{name: "incomplete", runs: single(incomplete)},
		{name: "budget", runs: single(budget)},
		{name: "extended", runs: single(extended)},
		{name: "one-cell", runs: single(oneCell)},
		{name: "one-cell-short", runs: single(oneCellShort)},
		{name: "host-clock", runs: single(hostClock)},
		{name: "rates", runs: single(rates)},
		{name: "two-cells", runs: single(twoCells)},
		{name: "one-lost", runs: single(failedCell)},
		{name: "part-lost", runs: single(failedPart)},
		{name: "no-baseline", runs: single(noBaseline)},
		{name: "shapes", runs: single(shapes)},
		{name: "away", runs: single(away)},
		{name: "grid", runs: single(grid)},
		{name: "scaling", runs: single(scaling)},
		{name: "percentiles", runs: single(percentiles)},
		{name: "curves", runs: single(curves)},
		{name: "turns", runs: single(turns)},
		{name: "turns-interrupted", runs: single(turnsInterrupted)},
		{name: "survey", runs: single(survey)},
		{name: "survey-folded", runs: single(folded)},
		{name: "machine", runs: single(machine)},
		{name: "all-failed", runs: single(allFailed)},
		{name: "empty", runs: single(empty)},
		{name: "hostile", runs: single(hostile)},
		{name: "compared-hostile", runs: hostileSides, group: bySide},
		{name: "timeline", runs: single(dockerAndRunc), timelines: explained},
		{name: "timeline-hostile", runs: single(dockerAndRunc), timelines: explainedByOthers},
		{name: "quick", runs: single(quick)},
		{name: "ten-cells", runs: single(tenCells)},
		{name: "ten-cells-conditions", runs: single(tenCellsUnderConditions)},
		{name: "hundred-cells", runs: single(hundredCells), huge: true},
		{name: "two-runs", runs: twoRuns},
		{name: "hosts", runs: hosts},
		{name: "written", runs: single(writtenOn), running: func(*bench.Header) bool { return true }},
		{name: "sides", runs: sides, group: bySide, running: func(h *bench.Header) bool { return h.Name == "now" }},
		{name: "parts", runs: parts},
		{name: "few-runs", runs: func() []*bench.Run { return hosts()[:9] }},
		{name: "together", runs: together},
		{name: "kinds", runs: kinds, group: byOS},
		{name: "kinds-alone", runs: kindsAlone, group: byOS},
	}
}

func single(f func() *bench.Run) func() []*bench.Run {
	return func() []*bench.Run { return []*bench.Run{f()} }
}

// lastPart is a short form of an ID.
func lastPart(id string) string { return id[strings.LastIndexByte(id, '-')+1:] }

// document analyses a state as the command line would.
func (s state) document(t testing.TB) *report.Document {
	t.Helper()
	runs := s.runs()
	if len(runs) > 1 {
		c, err := analysis.Compare(runs, analysis.CompareOptions{Group: s.group, Running: s.running})
		if err != nil {
			t.Fatal(err)
		}
		return report.NewComparison(c, lastPart)
	}
	r, err := analysis.Analyze(runs[0], analysis.Options{Running: s.running != nil, Singles: true})
	if err != nil {
		t.Fatal(err)
	}
	d := report.New(r, lastPart)
	if s.timelines != nil {
		d.AddTimelines(s.timelines(&runs[0].Header.Plan))
	}
	d.Trailer = []string{"saved as " + lastPart(r.Header.ID)}
	return d
}

func engines() []analysistest.Cell {
	return []analysistest.Cell{
		{Name: "native"}, {Name: "floor", Factor: 2.67}, {Name: "crun", Factor: 6.53}, {Name: "runc", Factor: 17.4}, {Name: "docker", Factor: 174},
	}
}

func normal() *bench.Run {
	return analysistest.Run(analysistest.Shape{Seed: 8821, Blocks: 84, Warmup: 1, Cells: engines()})
}

func precise() *bench.Run {
	run := normal()
	run.Header.Plan.Precision, run.Header.Plan.MaxBlocks = 0.03, 500
	run.End.Reason = bench.StopPrecision
	return run
}

func same() *bench.Run {
	return analysistest.Run(analysistest.Shape{
		Seed: 5, Blocks: 200, Cells: []analysistest.Cell{
			{Name: "docker"}, {Name: "docker again"}, {Name: "podman", Factor: 1.05}, {Name: "unsure", Factor: 1.009},
		},
		Noise: func(r *rand.Rand) float64 { return 0.02 * r.NormFloat64() },
	})
}

// margins says of some metrics what is worth knowing, and stopped by it.
func margins(seed uint64) *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: seed, Blocks: 60, Metrics: analysistest.Lifecycle()[:4],
		Cells: []analysistest.Cell{{Name: "docker"}, {Name: "docker again"}, {Name: "podman", Factor: 1.05}},
		Noise: func(r *rand.Rand) float64 { return 0.05 * r.NormFloat64() },
	})
	run.Header.Plan.Precision = 0.03
	run.Header.Plan.Margins = []bench.Margin{
		{Metric: "total", Smallest: 0.1, Precision: 0.05}, {Metric: "create", Smallest: 0.125, Precision: 0.0625},
	}
	run.End.Reason = bench.StopPrecision
	return run
}

// away has its servers on another machine, across a network that differs more from
// block to block than the cells do.
func away() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 61, Blocks: 40, Cells: []analysistest.Cell{
			{Name: "native"}, {Name: "docker host", Factor: 1.001}, {Name: "docker published", Factor: 1.02},
		},
		Metrics: []bench.Metric{
			{Name: "rtt.p50", Title: "round trip, median", Unit: "s", Better: bench.Lower, Role: bench.Primary, Scale: bench.Ratio, Doc: "From one event to another."},
			{Name: "rtt.lost", Title: "lost requests", Unit: "1", Better: bench.Lower, Role: bench.Detail, Scale: bench.Difference, Doc: "How many there were."},
		},
		Noise: func(r *rand.Rand) float64 { return 0.004 * r.NormFloat64() },
		Block: func(r *rand.Rand, _ int) float64 { return 0.1 * r.NormFloat64() },
	})
	there := &bench.Away{
		Host: bench.HostFacts{
			Hostname: "far", OS: "Ubuntu 24.04 LTS", Kernel: "6.8.0-40-generic", CPU: "AMD EPYC 7B13", CPUs: 8,
			Memory: 32 << 30, Cgroup: "v2",
		},
		Address: "192.0.2.7", RoundTrip: 23400 * time.Microsecond,
	}
	run.Header.Engines = []bench.EngineInfo{
		{Name: "native", Driver: "remote", Away: there},
		{
			Name: "docker", Driver: "remote", Version: "27.1", Away: there,
			Facts: []bench.Label{{Key: "storage", Value: "overlay2"}, {Key: "log", Value: "json-file"}},
		},
	}
	return run
}

// grid has two conditions with numbers as levels: storage that suffers from clients, the more the
// larger the data are, and one cell of which nothing can be told there.
func grid() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 71, Blocks: 14, Cells: []analysistest.Cell{{Name: "native"}, {Name: "volume"}, {Name: "layer"}},
		Grid: []bench.Factor{
			{Name: "scale", Levels: []string{"1", "10", "100"}, Condition: true},
			{Name: "clients", Levels: []string{"1", "4", "16", "64"}, Condition: true},
		},
		Metrics: []bench.Metric{
			{Name: "rate", Title: "transactions per second", Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio, Doc: "How many ended, by the time that it took."},
			{Name: "latency.p99", Title: "latency, p99", Unit: "s", Better: bench.Lower, Role: bench.Primary, Scale: bench.Ratio, Doc: "From sent to answered."},
		},
		Noise: func(r *rand.Rand) float64 { return 0.02 * r.NormFloat64() },
	})
	for i := range run.Samples {
		s := &run.Samples[i]
		c := &run.Header.Plan.Cells[s.Trial.Cell]
		scale, clients := levelOf(c, "scale"), levelOf(c, "clients")
		s.Values[0] *= 900 * clients / (1 + clients/24) / (1 + math.Log10(scale)/4)
		s.Values[1] *= 1.4e-3 * (1 + clients/12)
		switch c.Name {
		case "volume":
			s.Values[0] *= 0.985
		case "layer":
			slower := 1 + 0.04*math.Log2(clients)*math.Log10(10*scale)
			s.Values[0] /= slower
			s.Values[1] *= slower
			if clients == 16 {
				s.Values[0] *= 1 + 0.3*math.Sin(float64(i))
			}
		}
	}
	return run
}

// levelOf is a level of a cell as a number.
func levelOf(c *bench.Cell, key string) float64 {
	for _, l := range c.Levels {
		if v, err := strconv.ParseFloat(l.Value, 64); err == nil && l.Key == key {
			return v
		}
	}
	return math.NaN()
}

// scaling has one condition with sizes as levels, and names that are long and begin alike.
func scaling() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 72, Blocks: 14, Cells: []analysistest.Cell{
			{Name: "docker network=host"},
			{Name: "docker network=bridge", Factor: 1.04},
			{Name: "docker network=published", Factor: 1.05},
			{Name: "podman network=published", Factor: 1.6},
		},
		Grid:    []bench.Factor{{Name: "size", Levels: []string{"512B", "4KiB", "64KiB", "1MiB", "16MiB"}, Condition: true}},
		Metrics: analysistest.Lifecycle()[:1],
	})
	factors := map[string]float64{"size=512B": 1, "size=4KiB": 1.1, "size=64KiB": 2, "size=1MiB": 9, "size=16MiB": 120}
	for i := range run.Samples {
		s := &run.Samples[i]
		s.Values[0] *= factors[run.Header.Plan.Cells[s.Trial.Cell].Condition]
	}
	return run
}

// percentiles has histograms of single requests, of cells that differ in their tails.
func percentiles() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 75, Blocks: 20, Cells: []analysistest.Cell{{Name: "native"}, {Name: "docker host"}, {Name: "docker published", Factor: 1.15}},
		Metrics: []bench.Metric{
			{Name: "latency.p99", Title: "time, p99", Unit: "s", Better: bench.Lower, Role: bench.Primary, Scale: bench.Ratio, Doc: "From sent to answered."},
		},
	})
	for i := range run.Samples {
		s := &run.Samples[i]
		random := rand.New(rand.NewPCG(uint64(i), 7))
		h := load.NewHistogram()
		for range 20_000 {
			v := 180e-6 * s.Values[0] * math.Exp(0.25*random.NormFloat64())
			if s.Trial.Cell == 2 && random.IntN(400) == 0 {
				v *= 12
			}
			h.Add(time.Duration(v * 1e9))
		}
		s.Values[0] = h.Percentile(0.99)
		d, err := h.Distribution()
		if err != nil {
			panic(err) // histograms that were made here can be written
		}
		s.Distributions = []bench.Distribution{{Metric: "latency", HDR: string(d)}}
	}
	return run
}

// curves has a series for each trial: memory that grows with the containers, and how long each took.
func curves() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 74, Blocks: 12, Cells: []analysistest.Cell{{Name: "runc"}, {Name: "crun", Factor: 0.6}, {Name: "docker", Factor: 5}},
		Metrics: []bench.Metric{
			{Name: "memory", Title: "memory of each container", Unit: "B", Better: bench.Lower, Role: bench.Primary, Scale: bench.Ratio, Doc: "Memory of the host by containers."},
			{Name: "start", Title: "start", Unit: "s", Better: bench.Lower, Role: bench.Detail, Scale: bench.Ratio, Doc: "From one event to another."},
		},
	})
	for i := range run.Samples {
		s := &run.Samples[i]
		random := rand.New(rand.NewPCG(uint64(i), 8))
		memory, start := bench.Series{Metric: "memory"}, bench.Series{Metric: "start"}
		for n := range 64 {
			memory.Values = append(memory.Values, s.Values[0]*float64(2<<20)*float64(n+1)*(1+0.02*random.NormFloat64()))
			start.Values = append(start.Values, s.Values[1]*8*(1+float64(n)/90)*math.Exp(0.1*random.NormFloat64()))
		}
		s.Values[0] *= 2 << 20
		s.Values[1] *= 8
		s.Series = []bench.Series{memory, start}
	}
	return run
}

// turns is a run whose cells took turns under one condition, and ran whole under the other.
func turns() *bench.Run {
	state := func(name, unit string) bench.Metric {
		return bench.Metric{Name: name, Title: name, Unit: unit, Better: bench.Neither, Role: bench.State, Scale: bench.Difference}
	}
	run := analysistest.Run(analysistest.Shape{
		Seed: 78, Blocks: 20, Conditions: []string{"cpus=2", "cpus=0.5"},
		Cells: []analysistest.Cell{{Name: "native"}, {Name: "runc", Factor: 0.98}},
		Metrics: []bench.Metric{
			{Name: "cpu.single", Title: "compute, one thread", Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio, Doc: "Operations per second."},
			state("trial.turns", "1"), state("trial.turns_time", "s"), state("trial.turns_lost", "s"),
		},
		Noise: func(r *rand.Rand) float64 { return 0.004 * r.NormFloat64() },
	})
	run.Header.Plan.Slice = 20 * time.Millisecond
	run.Header.Plan.Whole = []bench.Whole{{
		Condition: "cpus=0.5", Reason: "native has a CPU quota, which a container that rests between turns would never meet",
	}}
	for i := range run.Samples {
		s := &run.Samples[i]
		if run.Header.Plan.Cells[s.Trial.Cell].Condition == "cpus=0.5" {
			s.Values[1], s.Values[2], s.Values[3] = math.NaN(), math.NaN(), math.NaN()
			continue
		}
		random := rand.New(rand.NewPCG(uint64(i), 9))
		speeds := bench.Series{Metric: "cpu.single.slices"}
		for range 50 {
			speeds.Values = append(speeds.Values, 2100*s.Values[0]*math.Exp(0.01*random.NormFloat64()))
		}
		s.Values[1], s.Values[2], s.Values[3] = float64(58+i%3), 1.03, 0.012
		s.Series = []bench.Series{speeds}
	}
	return run
}

// turnsInterrupted is a run whose cells compare otherwise in uninterrupted stretches than in turns.
func turnsInterrupted() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 79, Blocks: 14, Cells: []analysistest.Cell{{Name: "native"}, {Name: "runc", Factor: 0.98}},
		Metrics: bench.WithStretches([]bench.Metric{{
			Name: "cpu.single", Title: "compute, one thread", Unit: "1/s", Better: bench.Higher, Role: bench.Primary,
			Scale: bench.Ratio, Doc: "Operations per second.",
		}}, "cpu.single"),
		Noise: func(r *rand.Rand) float64 { return 0.004 * r.NormFloat64() },
	})
	run.Header.Plan.Slice = 20 * time.Millisecond
	for i := range run.Samples {
		s := &run.Samples[i]
		if run.Header.Plan.Cells[s.Trial.Cell].Name == "runc" {
			s.Values[1] *= 0.8
		}
	}
	return run
}

// survey has so many metrics that they are also shown together. Runtimes differ
// from the baseline in starting alone; docker's network is slower too.
func survey() *bench.Run {
	metric := func(name, title, u string, better bench.Direction, role bench.Role) bench.Metric {
		return bench.Metric{
			Name: name, Title: title, Unit: u, Better: better, Role: role, Scale: bench.Ratio, Doc: "From one event to another.",
		}
	}
	metrics := []bench.Metric{
		metric("first_instruction", "time to first instruction", "s", bench.Lower, bench.Primary),
		metric("cpu.all", "CPU, all threads", "1/s", bench.Higher, bench.Primary),
		metric("memory.copy", "memory, copy", "B/s", bench.Higher, bench.Primary),
		metric("rtt.p50", "round trip, p50", "s", bench.Lower, bench.Primary),
		metric("throughput.rate", "throughput", "B/s", bench.Higher, bench.Primary),
	}
	for _, kernel := range []string{
		"integer", "floating point", "primes", "sorting", "encryption", "compression", "physics", "strings", "vector",
	} {
		metrics = append(metrics, metric("cpu.all."+kernel, "CPU: "+kernel, "1/s", bench.Higher, bench.Detail))
	}
	run := analysistest.Run(analysistest.Shape{
		Seed: 77, Blocks: 24, Cells: []analysistest.Cell{
			{Name: "native"}, {Name: "runc"}, {Name: "crun"}, {Name: "podman"}, {Name: "docker"},
		}, Metrics: metrics,
		Noise: func(r *rand.Rand) float64 { return 0.01 * r.NormFloat64() },
	})
	start := []float64{1, 17.4, 6.53, 110, 174, 1} // the last is the control
	for i := range run.Samples {
		s := &run.Samples[i]
		s.Values[0] *= 1.09e-3 * start[s.Trial.Cell]
		s.Values[1] *= 2.1e3
		s.Values[2] *= 11.5e9
		s.Values[3] *= 9.8e-6
		s.Values[4] *= 3.1e9
		applied := *s.Applied
		s.Applied = &applied
		applied.Path, applied.Data = []string{"loopback"}, "layer overlay"
		if s.Trial.Cell == 3 || s.Trial.Cell == 4 {
			applied.Path = []string{"docker-proxy", "bridge docker0", "veth"}
			s.Values[3] *= 1.6
			s.Values[4] *= 0.7
		}
	}
	return run
}

// folded is a survey of which the plan says what decides.
func folded() *bench.Run {
	run := survey()
	run.Header.Plan.Restrict = []string{"first_instruction", "cpu.all", "memory.copy", "rtt.p50"}
	for i := range 20 {
		m := bench.Metric{
			Name: fmt.Sprintf("more.%d", i), Title: fmt.Sprintf("number %d", i), Unit: "1", Better: bench.Lower,
			Role: bench.Detail, Scale: bench.Difference, Doc: "A number.",
		}
		run.Header.Metrics = append(run.Header.Metrics, m)
		for j := range run.Samples {
			run.Samples[j].Values = append(run.Samples[j].Values, float64(i))
		}
	}
	return run
}

func fail(s *bench.Sample, o bench.Outcome, operation, reason string) {
	s.Outcome, s.Operation, s.Reason, s.Values, s.Applied = o, operation, reason, nil, nil
}

func failures() *bench.Run {
	run := analysistest.Run(analysistest.Shape{Seed: 2, Blocks: 30, Warmup: 2, Cells: engines()})
	for i := range run.Samples {
		s := &run.Samples[i]
		switch {
		case s.Trial.Cell == 4 && s.Trial.Block%9 == 0:
			fail(s, bench.Failed, "start", "docker: Error response from daemon: OCI runtime create failed: "+
				"container_linux.go:380: starting container process caused: process_linux.go:545: container init caused: "+
				"no space left on device")
		case s.Trial.Cell == 3 && s.Trial.Block == 11:
			fail(s, bench.TimedOut, "exit", "no answer for 30s")
		case s.Trial.Cell == 2 && s.Trial.Block >= 3:
			fail(s, bench.Skipped, "", "given up after 3 failures in a row")
		case s.Trial.Cell == 2 && s.Trial.Block >= 0:
			fail(s, bench.Failed, "create", "exit status 1: unknown version specified")
		}
	}
	return run
}

// TestTrustIsPlain checks that the name of a cell that failed cannot reach a terminal as it is.
func TestTrustIsPlain(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{Seed: 2, Blocks: 12, Cells: engines()})
	run.Header.Plan.Cells[1].Name = "\x1b[31mred"
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 1 && s.Trial.Block < 2 {
			fail(s, bench.Failed, "start", "no")
		}
	}
	result, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := report.New(result, nil).Screen.Trust
	if !strings.Contains(got, "2 trials of ") || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}

// TestCanceledIsNotFailed checks that a trial that its user ended is no failure of what it measured: 'tare list'
// does not count it as one either.
func TestCanceledIsNotFailed(t *testing.T) {
	run := analysistest.Run(analysistest.Shape{Seed: 2, Blocks: 12, Cells: engines()})
	fail(&run.Samples[7], bench.Canceled, "start", "interrupted")
	result, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := report.New(result, nil)
	if len(d.View.Failures) != 0 || len(d.View.Canceled) != 1 || d.Runs[0].Trials.Canceled != 1 ||
		slices.Contains(d.Trust.Codes, analysis.CodeFailed) {
		t.Errorf("failures %+v, canceled %+v, trust %+v", d.View.Failures, d.View.Canceled, d.Trust)
	}
	for _, m := range d.Metrics {
		for _, r := range m.Conditions[0].Rows {
			if r.Failed != 0 {
				t.Errorf("%s: %d trials of %s failed", m.Name, r.Failed, r.Cell)
			}
		}
	}
}

// noisy has more noise than lets anything be called the same.
func noisy() *bench.Run {
	return analysistest.Run(analysistest.Shape{
		Seed: 6, Blocks: 30, Cells: []analysistest.Cell{{Name: "runc"}, {Name: "runc again"}, {Name: "docker", Factor: 9}},
		Metrics: analysistest.Lifecycle()[:1], Noise: func(r *rand.Rand) float64 { return 0.6 * r.NormFloat64() },
	})
}

// unsupported has a cell that its engine cannot do.
func unsupported() *bench.Run {
	run := analysistest.Run(analysistest.Shape{Seed: 18, Blocks: 12, Cells: engines()[:3]})
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 1 {
			fail(s, bench.Unsupported, "", `network "bridge" is not supported here: floor has none and host`)
		}
	}
	return run
}

// A reason why several cells cannot run is said once.
func TestAbsentOnce(t *testing.T) {
	run := unsupported()
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 2 {
			fail(s, bench.Unsupported, "", `network "bridge" is not supported here: floor has none and host`)
		}
	}
	result, err := analysis.Analyze(run, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if said := report.New(result, nil).View.Absent; len(said) != 1 || said[0].Name != "floor, crun" {
		t.Errorf("%+v", said)
	}
}

func fewPairs() *bench.Run {
	run := analysistest.Run(analysistest.Shape{Seed: 3, Blocks: 4, Cells: engines()})
	run.Header.Plan.MinBlocks = 10
	return run
}

func fewBlocks() *bench.Run {
	return analysistest.Run(analysistest.Shape{Seed: 3, Blocks: 7, Cells: engines()})
}

func unreliable() *bench.Run {
	run := analysistest.Run(analysistest.Shape{Seed: 4, Blocks: 40, Cells: engines()})
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 5 {
			s.Values[0] *= 1.08
		}
	}
	return run
}

func conditions() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 61, Blocks: 40, Cells: []analysistest.Cell{
			{Name: "native"}, {Name: "host network", Factor: 1.03}, {Name: "bridge", Factor: 1.31},
		},
		Conditions: []string{"clients=1", "clients=8", "clients=64"}, Metrics: analysistest.Lifecycle()[:3],
	})
	for i := range run.Samples {
		s := &run.Samples[i]
		if c := run.Header.Plan.Cells[s.Trial.Cell]; c.Name == "bridge" && c.Condition == "clients=64" {
			s.Values[0] *= 0.6
		}
	}
	return run
}

func incomplete() *bench.Run {
	run := analysistest.Run(analysistest.Shape{Seed: 7, Blocks: 12, Cells: engines()})
	run.Header.Plan.MaxBlocks, run.End = 100, nil
	run.Samples = run.Samples[:len(run.Samples)-4]
	return run
}

func budget() *bench.Run {
	run := analysistest.Run(analysistest.Shape{Seed: 7, Blocks: 14, Cells: engines()})
	run.Header.Plan.Precision, run.Header.Plan.MaxBlocks, run.Header.Plan.Budget = 0.01, 500, 20*time.Second
	run.End.Reason = bench.StopBudget
	return run
}

// extended was looked at twice before: of what one look would tell, this one cannot tell all.
func extended() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 12, Blocks: 40, Metrics: analysistest.Lifecycle()[:4],
		Cells: []analysistest.Cell{{Name: "docker"}, {Name: "podman", Factor: 1.05}, {Name: "crun", Factor: 1.015}},
	})
	cells := len(run.Header.Plan.Cells)
	for i, blocks := range []int{12, 20} {
		run.Resumptions = append(run.Resumptions, bench.Resumption{
			Time: run.Header.Began.Add(time.Duration(i+1) * time.Hour), Tool: run.Header.Tool, Seq: cells * blocks,
			Host:      run.Header.Host,
			Extension: &bench.Extension{MaxBlocks: 2 * blocks, After: *run.End},
		})
	}
	return run
}

func oneCell() *bench.Run {
	return analysistest.Run(analysistest.Shape{Seed: 9, Blocks: 20, Cells: engines()[4:], NoControl: true})
}

// oneCellShort has a control, and too few trials of the one cell.
func oneCellShort() *bench.Run {
	return analysistest.Run(analysistest.Shape{Seed: 9, Blocks: 3, Cells: engines()[:1]})
}

func hostClock() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 10, Blocks: 20, Cells: []analysistest.Cell{{Name: "runc"}, {Name: "runsc", Factor: 4.2}},
	})
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 1 {
			s.Notes = []string{bench.NoteHostClock}
		}
	}
	return run
}

func rates() *bench.Run {
	metrics := []bench.Metric{
		{Name: "requests", Title: "requests per second", Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio},
		{Name: "throughput", Title: "bytes received", Unit: "B/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio},
		{Name: "errors", Title: "errors", Unit: "1", Better: bench.Lower, Role: bench.Primary, Scale: bench.Difference},
		{Name: "size", Title: "size of the answer", Unit: "B", Better: bench.Neither, Role: bench.Primary, Scale: bench.Ratio},
	}
	run := analysistest.Run(analysistest.Shape{
		Seed: 11, Blocks: 30, Metrics: metrics, Cells: []analysistest.Cell{
			{Name: "host"}, {Name: "bridge", Factor: 0.78}, {Name: "published port", Factor: 0.31},
		},
	})
	for i := range run.Samples {
		s := &run.Samples[i]
		s.Values[0] *= 45200
		s.Values[1] *= 380 << 20
		s.Values[2] = float64(i % 7 / 6)
		if s.Trial.Cell == 2 {
			s.Values[2] += float64(2 + i%3)
		}
		s.Values[3] *= 1200
	}
	return run
}

// twoCells has one cell of each verdict in each metric, and one that is not measured.
func twoCells() *bench.Run {
	metric := func(name, title, u string, better bench.Direction) bench.Metric {
		return bench.Metric{Name: name, Title: title, Unit: u, Better: better, Role: bench.Primary, Scale: bench.Ratio}
	}
	run := analysistest.Run(analysistest.Shape{
		Seed: 21, Blocks: 30, Cells: []analysistest.Cell{{Name: "host:nginx"}, {Name: "tar:shop.tar"}},
		Metrics: []bench.Metric{
			metric("size", "bytes pulled", "B", bench.Lower),
			metric("ready", "time until ready", "s", bench.Lower),
			metric("rate", "requests per second", "1/s", bench.Higher),
			metric("p99", "time, p99", "s", bench.Lower),
			metric("memory", "memory of the server", "B", bench.Neither),
			metric("nothing", "connect", "s", bench.Lower),
		},
	})
	for i := range run.Samples {
		s := &run.Samples[i]
		other := s.Trial.Cell == 1
		noise := s.Values[0]
		s.Values[0] = 9.5 * (1 << 20)
		s.Values[1], s.Values[2], s.Values[3], s.Values[4] = 0.3*noise, 44_000*noise, 0.002*noise, 7<<20
		if other {
			s.Values[1], s.Values[2], s.Values[4] = 0.36*noise, 52_000*noise, 5<<20
			s.Values[3] *= 1 + 0.2*math.Sin(float64(i))
			s.Values[5] = math.NaN()
		}
	}
	return run
}

// failedCell has a cell of two of which every trial failed: the questions are answered for
// the other.
func failedCell() *bench.Run {
	run := twoCells()
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 1 {
			s.Outcome, s.Values, s.Operation, s.Reason = bench.Failed, nil, "pull", "pull: no space left on device"
		}
	}
	return run
}

// noBaseline has a condition of two in which the baseline always fails, and not many blocks.
func noBaseline() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 23, Blocks: 3, Cells: []analysistest.Cell{{Name: "crun"}, {Name: "docker", Factor: 30}}, NoControl: true,
		Conditions: []string{"memory=1KB", "memory=64MiB"}, Metrics: analysistest.Lifecycle()[:2],
	})
	run.Header.Plan.Budget, run.End.Reason = 10*time.Second, bench.StopBudget
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 0 {
			fail(s, bench.Failed, "start", "memory.limit_in_bytes: device or resource busy")
		}
	}
	return run
}

// failedPart has a cell of two of which one part failed every time.
func failedPart() *bench.Run {
	run := twoCells()
	for i := range run.Samples {
		if s := &run.Samples[i]; s.Trial.Cell == 1 {
			s.Values[2], s.Values[3] = math.NaN(), math.NaN()
			s.Parts = []bench.PartOutcome{{
				Part: "many", Workload: "http", Outcome: bench.Failed,
				Reason: "server: the process inside ended with exit status 0",
			}}
		}
	}
	return run
}

// shapes has drift, likeness, two groups and outliers.
func shapes() *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: 12, Blocks: 80, Cells: []analysistest.Cell{
			{Name: "calm"}, {Name: "slower and slower"}, {Name: "two ways", Factor: 2}, {Name: "hiccups", Factor: 3}, {Name: "waves", Factor: 4},
		},
		Metrics: analysistest.Lifecycle()[:1], Block: func(_ *rand.Rand, b int) float64 { return 0.003 * float64(b) },
	})
	for i := range run.Samples {
		s := &run.Samples[i]
		switch b := s.Trial.Block; {
		case s.Trial.Cell == 1:
			s.Values[0] *= 1 + float64(b)/100
		case s.Trial.Cell == 2 && i%3 == 0:
			s.Values[0] *= 3
		case s.Trial.Cell == 3 && b%20 == 7:
			s.Values[0] *= 40
		case s.Trial.Cell == 4 && b/8%2 == 0:
			s.Values[0] *= 1.3
		}
	}
	return run
}

// machine has everything that can be wrong with a machine.
func machine() *bench.Run {
	extra := func(name, u string, role bench.Role) bench.Metric {
		return bench.Metric{Name: name, Title: name, Unit: u, Better: bench.Neither, Role: role, Scale: bench.Difference}
	}
	metrics := append(analysistest.Lifecycle()[:1],
		extra("host.steal_time", "s", bench.Counter), extra("host.memory_pressure_full", "s", bench.Counter),
		extra("cgroup.throttled_time", "s", bench.Counter), extra("host.running", "1", bench.State),
		extra("host.blocked", "1", bench.State))
	run := analysistest.Run(analysistest.Shape{Seed: 13, Blocks: 20, Cells: engines()[:3], Metrics: metrics})
	for i := range run.Samples {
		s := &run.Samples[i]
		s.Values[1] = 0.01 * s.Elapsed.Seconds()
		s.Values[2] = 0.02 * s.Elapsed.Seconds()
		s.Values[3] = float64(s.Trial.Cell) / 1000
		s.Values[4] = float64(1 + i%4)
		s.Values[5] = float64(i % 2)
		if i > 40 {
			applied := *s.Applied
			applied.Image, applied.Runtime = "sha256:2", "crun"
			s.Applied = &applied
		}
	}
	run.End.Overhead.CPU = run.End.Overhead.Wall / 20
	again := bench.Resumption{Time: analysistest.Epoch().Add(time.Hour), Tool: "v0.2.0", Seq: 40, Host: run.Header.Host}
	again.Host.Kernel, again.Host.BootID = "6.19.1", "8f8e1c1e-0000-4e0c-9b5e-0d6f3f6f9f10"
	run.Resumptions = []bench.Resumption{again}
	run.Header.Warnings = []bench.Warning{
		{Code: "governor", Text: "the CPU governor is powersave", Hint: "cpupower frequency-set -g performance"},
	}
	return run
}

func allFailed() *bench.Run {
	run := analysistest.Run(analysistest.Shape{Seed: 14, Blocks: 3, Cells: engines()[:2]})
	for i := range run.Samples {
		fail(&run.Samples[i], bench.Failed, "create", "permission denied")
	}
	run.End.Reason = bench.StopAllFailed
	return run
}

func empty() *bench.Run {
	run := analysistest.Run(analysistest.Shape{Seed: 15, Cells: engines()[:2]})
	run.End = nil
	return run
}

// attack is what a stored run may contain that somebody else sent.
const attack = "=cmd|' /C calc'!A1 \x1b[31m\x1b]0;title\x07\u202egnp\u0085\u2028|<b>*x*</b>[a](http://x)\r\n`\xff 漢字 é"

// hostile has foreign text wherever a record can have it, and an outcome, cells and a warning that no record has.
func hostile() *bench.Run {
	run := analysistest.Foreign(attack)
	run.Header.Warnings[0].Cells = []int{-1, 1, 99}
	run.Header.Metrics[1].Unit = "<b" // longer ones have no room beside an axis
	run.Samples[3].Outcome = attack
	return run
}

// hostileSides are two of them, on sides with foreign names that are short enough for a heading.
func hostileSides() []*bench.Run {
	a, b := hostile(), hostile()
	b.Header.ID += "b"
	a.Header.Plan.Labels[0].Value, b.Header.Plan.Labels[0].Value = "=\x1b[2Ja", "\u202e<b>"
	return []*bench.Run{a, b}
}

// quick is like the default run on a busy machine.
func quick() *bench.Run {
	metric := func(name, title, u string, better bench.Direction) bench.Metric {
		return bench.Metric{Name: name, Title: title, Unit: u, Better: better, Role: bench.Primary, Scale: bench.Ratio}
	}
	run := analysistest.Run(analysistest.Shape{
		Seed: 31, Blocks: 20,
		Cells: []analysistest.Cell{{Name: "native"}, {Name: "docker"}, {Name: "podman"}, {Name: "crun"}},
		Metrics: []bench.Metric{
			metric("first_instruction", "time to first instruction", "s", bench.Lower),
			metric("cpu.single", "compute, one thread", "1/s", bench.Higher),
			metric("memory.copy", "memory copy", "B/s", bench.Higher),
			metric("disk.randwrite.iops", "random writes", "1/s", bench.Higher),
			metric("rtt.p50", "round trip, median", "s", bench.Lower),
			metric("throughput.rate", "throughput", "B/s", bench.Higher),
		},
		Noise: func(r *rand.Rand) float64 { return 0.02 * r.NormFloat64() },
	})
	run.Header.Plan.Name, run.Header.Plan.Precision, run.Header.Plan.Budget = "quick", 0.03, 2*time.Minute
	run.Header.Plan.MaxBlocks, run.End.Reason = 500, bench.StopBudget
	start := []float64{1, 593, 144, 36, 1} // the last is the control
	random := rand.New(rand.NewPCG(31, 2))
	noisier := func(v, spread float64) float64 { return v * math.Exp(spread*random.NormFloat64()) }
	for i := range run.Samples {
		s := &run.Samples[i]
		container := s.Trial.Cell >= 1 && s.Trial.Cell <= 3
		s.Values[0] = noisier(303e-6*start[s.Trial.Cell], 0.1)
		s.Values[1], s.Values[2] = noisier(23.7e3, 0.01), noisier(37.2e9, 0.04)
		s.Values[3], s.Values[4], s.Values[5] = noisier(126e3, 0.05), noisier(51.5e-6, 0.1), noisier(4.53e9, 0.3)
		if container {
			s.Values[3] *= 0.89
			s.Values[4] *= 1.08
		}
	}
	return run
}

// tenCells are more than have room side by side.
func tenCells() *bench.Run {
	return analysistest.Run(analysistest.Shape{
		Seed: 19, Blocks: 40, Metrics: analysistest.Lifecycle()[:3], Cells: tenEngines(),
	})
}

func tenCellsUnderConditions() *bench.Run {
	return analysistest.Run(analysistest.Shape{
		Seed: 20, Blocks: 20, Metrics: analysistest.Lifecycle()[:1], Cells: tenEngines(),
		Conditions: []string{"clients=1", "clients=8", "clients=64"},
	})
}

func tenEngines() (all []analysistest.Cell) {
	for i, name := range []string{
		"native", "floor", "crun", "runc", "youki", "runsc", "containerd", "cri", "podman", "docker",
	} {
		all = append(all, analysistest.Cell{Name: name, Factor: math.Pow(2, max(float64(i)-1, 0)*0.6)})
	}
	return all
}

// hundredCells are more than a page draws, and more than its table of details has columns.
func hundredCells() *bench.Run {
	s := analysistest.Shape{Seed: 17, Blocks: 12, Metrics: analysistest.Lifecycle()[:2]}
	s.Metrics[1].Role = bench.Detail
	for i := range 100 {
		s.Cells = append(s.Cells, analysistest.Cell{
			Name: fmt.Sprintf("engine=docker image=registry.example/team/app-%02d network=bridge", i), Factor: 1 + float64(i)/20,
		})
	}
	return analysistest.Run(s)
}

// runsOnHosts returns runs of one experiment on several hosts, times apart.
func runsOnHosts(seed uint64, host string, factor float64) *bench.Run {
	run := analysistest.Run(analysistest.Shape{
		Seed: seed, Blocks: 24, Cells: engines(), Metrics: analysistest.Lifecycle()[:3],
		Block: func(*rand.Rand, int) float64 { return factor },
	})
	run.Header.Host.Hostname, run.Header.Host.MachineID, run.Header.Host.BootID = host, host+"00000000", ""
	return run
}

func twoRuns() []*bench.Run {
	a, b := runsOnHosts(21, "vm", 0), runsOnHosts(22, "vm", 0.04)
	b.Header.Host.Kernel, b.Header.Engines[2].Version = "6.19.1", "1.21"
	b.Header.Plan.Cells = b.Header.Plan.Cells[:5]
	b.Samples = b.Samples[:0]
	for _, s := range runsOnHosts(22, "vm", 0.04).Samples {
		if s.Trial.Cell < 5 {
			b.Samples = append(b.Samples, s)
		}
	}
	return []*bench.Run{a, b}
}

func hosts() []*bench.Run {
	var out []*bench.Run
	for i := range 7 { // as many as 27 or more comparisons take
		out = append(out, runsOnHosts(uint64(30+i), "alpha", 0), runsOnHosts(uint64(40+i), "beta", 0.2),
			runsOnHosts(uint64(50+i), "gamma", 0.001))
	}
	return out
}

// together are runs that were measured together on two hosts, on one of which everything is slower.
func together() (runs []*bench.Run) {
	names := []string{"web1", "root@web2"}
	for i, name := range names {
		run := runsOnHosts(uint64(70+i), name, 0.05*float64(i))
		run.Header.ID = fmt.Sprintf("20260314-150926-k3xy-%d", i+1)
		run.Header.Joint = &bench.Joint{ID: "20260314-150926-k3xy", Host: name, Hosts: names}
		for k := range run.Samples {
			s := &run.Samples[k]
			s.Began = analysistest.Epoch().Add(time.Duration(s.Trial.Block) * time.Minute)
		}
		runs = append(runs, run)
	}
	runs[1].Header.Host.OS, runs[1].Header.Host.Kernel = "Ubuntu 24.04 LTS", "6.8.0-45-generic"
	return runs
}

// kinds are runs of hosts of two kinds, some hosts with several runs.
func kinds() (runs []*bench.Run) {
	for i := range 14 {
		kind := i % 2
		run := runsOnHosts(uint64(80+i), fmt.Sprintf("host%02d", i), 0.2*float64(kind)+0.01*float64(i%5))
		run.Header.Host.OS = []string{"Debian GNU/Linux 13 (trixie)", "Ubuntu 24.04 LTS"}[kind]
		runs = append(runs, run)
	}
	again := runsOnHosts(99, "host00", 0.01)
	again.Header.Host.OS = runs[0].Header.Host.OS
	return append(runs, again)
}

// kindsAlone are runs of one host of each kind.
func kindsAlone() (runs []*bench.Run) {
	for _, run := range hosts() {
		switch run.Header.Host.Hostname {
		case "alpha":
			run.Header.Host.OS = "Debian GNU/Linux 13 (trixie)"
		case "beta":
			run.Header.Host.OS = "Ubuntu 24.04 LTS"
		default:
			continue
		}
		runs = append(runs, run)
	}
	return runs
}

func byOS(h *bench.Header) string { return h.Host.OS }

// writtenOn is under way, and people have written on it, in a hostile way too.
func writtenOn() *bench.Run {
	run := incomplete()
	run.Header.Name = "before-upgrade"
	run.Header.Plan.Labels = []bench.Label{{Key: "side", Value: "before"}, {Key: "x\x1b[2J", Value: "_a_ <b>"}}
	run.Header.Remarks = []bench.Remark{
		{Time: run.Header.Began.Add(time.Hour), Text: "the neighbour was noisy until two o'clock, and what it did then is not known: see the graphs of that day"},
		{Time: run.Header.Began.Add(2 * time.Hour), Text: "two\nlines, \x1b[31mred\u202e *and* more"},
	}
	return run
}

// sides are runs that are told apart by a label, one of them still under way.
func sides() []*bench.Run {
	runs := twoRuns()
	for i, side := range []string{"before", "after-the-kernel-upgrade"} {
		runs[i].Header.Plan.Labels = []bench.Label{{Key: "side", Value: side}}
	}
	runs[1].Header.Name, runs[1].End = "now", nil
	return runs
}

// parts are runs of one engine with several questions in each part, in turn on two hosts.
func parts() (runs []*bench.Run) {
	metric := func(name, title, unit string, better bench.Direction) bench.Metric {
		return bench.Metric{
			Name: name, Title: title, Unit: unit, Better: better, Role: bench.Primary, Scale: bench.Ratio,
			Doc: "From one event to another.",
		}
	}
	metrics := []bench.Metric{
		metric("cpu.single", "compute, one thread", "1/s", bench.Higher),
		metric("cpu.all", "compute, all threads", "1/s", bench.Higher),
		metric("disk.randread.iops", "random reads", "1/s", bench.Higher),
		metric("disk.fsync.p50", "fsync", "s", bench.Lower),
		metric("build.total", "build", "s", bench.Lower),
		metric("build.rebuild", "rebuild with cache", "s", bench.Lower),
	}
	for i := range uint64(14) {
		host, factor := "alpha", 0.0
		if i%2 == 1 {
			host, factor = "beta", 0.1
		}
		run := analysistest.Run(analysistest.Shape{
			Seed: 200 + i, Blocks: 10, Metrics: metrics, Cells: []analysistest.Cell{{Name: "docker"}},
			Block: func(*rand.Rand, int) float64 { return factor },
		})
		run.Header.Host.Hostname, run.Header.Host.MachineID, run.Header.Host.BootID = host, host+"00000000", ""
		runs = append(runs, run)
	}
	return runs
}

func bySide(h *bench.Header) string { return h.Plan.Labels[0].Value }
