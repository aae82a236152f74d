// Package analysistest makes stored runs out of nothing, for the tests of what
// reads them. The same Shape gives the same run everywhere.
package analysistest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// Repetitions is how many whole runs a test simulates: few of them, unless the environment variable
// TARE_PROOFS asks for a proof, or for a quarter of one.
func Repetitions(few, proof int) int {
	switch os.Getenv("TARE_PROOFS") {
	case "":
		return few
	case "quarter":
		return proof / 4
	}
	return proof
}

// A Shape describes a run. Its zero values are a calm machine.
type Shape struct {
	Seed       uint64
	Blocks     int
	Warmup     int      // blocks
	Cells      []Cell   // the first is the baseline
	Conditions []string // such as "clients=8"; none = no condition
	// Grid are conditions with levels of their own, every combination of them, in place of Conditions.
	Grid      []bench.Factor
	NoControl bool
	Metrics   []bench.Metric // nil = Lifecycle()

	// Noise draws the logarithm of the factor by which a trial's value is off;
	// nil = normal with a standard deviation of 3 %.
	Noise func(r *rand.Rand) float64
	// Block is the logarithm of the factor that a block's trials have in
	// common; nil = none.
	Block func(r *rand.Rand, block int) float64
}

// A Cell is one thing to compare.
type Cell struct {
	Name   string
	Factor float64 // of the baseline's times and counts; 0 = 1
}

// Lifecycle lists metrics like those of the workload and the host.
func Lifecycle() []bench.Metric {
	second := func(name, title string, role bench.Role, scale bench.Scale) bench.Metric {
		return bench.Metric{
			Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: scale,
			Doc: "From one event to another.",
		}
	}
	number := func(name, title string) bench.Metric {
		return bench.Metric{
			Name: name, Title: title, Unit: "1", Better: bench.Lower, Role: bench.Counter, Scale: bench.Difference,
			Doc: "How many there were.",
		}
	}
	return []bench.Metric{
		second("first_instruction", "time to first instruction", bench.Primary, bench.Ratio),
		second("total", "whole life", bench.Primary, bench.Ratio),
		second("create", "create", bench.Detail, bench.Difference),
		second("start", "start", bench.Detail, bench.Difference),
		second("exit", "exit", bench.Detail, bench.Difference),
		second("remove", "remove", bench.Detail, bench.Difference),
		number("host.context_switches", "context switches"),
		number("host.page_faults", "page faults"),
		number("host.forks", "processes begun"),
		second("host.system_time", "system time", bench.Counter, bench.Difference),
		second("host.steal_time", "stolen time", bench.Counter, bench.Difference),
	}
}

// base is the baseline's value of a metric. A map, made for each value, took a tenth of a simulation.
func base(name string) float64 {
	switch name {
	case "first_instruction":
		return 1.09e-3
	case "total":
		return 1.63e-3
	case "create":
		return 0.31e-3
	case "start":
		return 0.52e-3
	case "exit":
		return 0.44e-3
	case "remove":
		return 0.12e-3
	case "host.context_switches":
		return 112
	case "host.page_faults":
		return 840
	case "host.forks":
		return 3
	case "host.system_time":
		return 0.9e-3
	default:
		return 1
	}
}

// Epoch is when every run begins.
func Epoch() time.Time { return time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC) }

// Run makes the run, finished, each trial successful.
func Run(s Shape) *bench.Run {
	if s.Metrics == nil {
		s.Metrics = Lifecycle()
	}
	if s.Noise == nil {
		s.Noise = func(r *rand.Rand) float64 { return 0.03 * r.NormFloat64() }
	}
	run := &bench.Run{Header: header(s)}
	random := rand.New(rand.NewPCG(s.Seed, 1))
	factor := make([]float64, len(run.Header.Plan.Cells))
	for i, c := range run.Header.Plan.Cells {
		factor[i] = s.factor(c)
	}
	now := Epoch()
	// Trials point to what they share, as those from a store do: a test that changes one copies it first.
	applied := &bench.Applied{
		Image: "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef", Network: "none",
	}
	for b := -s.Warmup; b < s.Blocks; b++ {
		common := 0.0
		if s.Block != nil {
			common = s.Block(random, b)
		}
		order := random.Perm(len(factor))
		run.Header.Schedule = append(run.Header.Schedule, order)
		for _, cell := range order {
			sample := s.sample(random, &run.Header, cell, factor[cell]*math.Exp(common), applied)
			sample.Trial = bench.Trial{Seq: len(run.Samples), Block: b, Cell: cell}
			sample.Began = now
			now = now.Add(sample.Elapsed + 50*time.Millisecond)
			run.Samples = append(run.Samples, sample)
		}
	}
	run.End = &bench.End{
		Time: now, Reason: bench.StopBlocks,
		Overhead: bench.Overhead{NullOperation: 180, CPU: now.Sub(Epoch()) / 100, Wall: now.Sub(Epoch()), MaxRSS: 31 << 20},
	}
	return run
}

// sample makes one trial.
func (s *Shape) sample(r *rand.Rand, h *bench.Header, cell int, factor float64, applied *bench.Applied) bench.Sample {
	out := bench.Sample{
		Outcome: bench.OK, Elapsed: time.Duration(10e6 * factor),
		Applied: applied,
	}
	for _, m := range h.Metrics {
		v := base(m.Name) * factor * math.Exp(s.Noise(r))
		switch {
		case m.Name == "host.steal_time":
			v = 0
		case m.Unit == "1":
			v = math.Round(v)
		}
		out.Values = append(out.Values, v)
	}
	return out
}

// factor returns a cell's factor by its name.
func (s *Shape) factor(c bench.Cell) float64 {
	for _, k := range s.Cells {
		if k.Name == c.Name && k.Factor != 0 {
			return k.Factor
		}
	}
	return 1
}

// header makes what is known before the first trial.
func header(s Shape) bench.Header {
	return bench.Header{
		ID: fmt.Sprintf("20260314-150926-%04x", s.Seed&0xffff), Tool: "v0.1.0", Began: Epoch(),
		Metrics: s.Metrics,
		Plan: bench.Plan{
			Name: "lifecycle", Workload: "lifecycle", Cells: cells(s), Factors: factors(s), Seed: s.Seed, Warmup: s.Warmup,
			MinBlocks: min(10, max(1, s.Blocks)), MaxBlocks: max(1, s.Blocks), TrialTime: time.Minute, OpTime: 30 * time.Second,
		},
		Engines: engines(s),
		Host: bench.HostFacts{
			Hostname: "vm", MachineID: "3f0c1e5ad2b94a7e", BootID: "6b1f6c1e-8d0a-4e0c-9b5e-0d6f3f6f9f10",
			OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.18.44", Arch: "amd64",
			CPU:  "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
			CPUs: 2, Memory: 24 << 30, Cgroup: "v1", Virtual: "kvm", Clock: "kvm-clock", Privileged: true,
		},
	}
}

func factors(s Shape) []bench.Factor {
	f := bench.Factor{Name: "engine"}
	for _, c := range s.Cells {
		f.Levels = append(f.Levels, c.Name)
	}
	out := append([]bench.Factor{f}, s.Grid...)
	if len(s.Conditions) > 0 {
		out = append(out, bench.Factor{Name: "clients", Levels: s.Conditions, Condition: true})
	}
	return out
}

func engines(s Shape) []bench.EngineInfo {
	var out []bench.EngineInfo
	for _, c := range s.Cells {
		out = append(out, bench.EngineInfo{Name: c.Name, Driver: "oci", Version: "1.1.5"})
	}
	return out
}

// conditions lists them, each with its levels.
func conditions(s Shape) (names []string, levels [][]bench.Label) {
	if len(s.Grid) == 0 {
		names = append(names, s.Conditions...)
		if len(names) == 0 {
			names = []string{""}
		}
		return names, make([][]bench.Label, len(names))
	}
	levels = [][]bench.Label{nil}
	for _, f := range s.Grid {
		var longer [][]bench.Label
		for _, before := range levels {
			for _, l := range f.Levels {
				longer = append(longer, append(slices.Clone(before), bench.Label{Key: f.Name, Value: l}))
			}
		}
		levels = longer
	}
	for _, all := range levels {
		var parts []string
		for _, l := range all {
			parts = append(parts, l.Key+"="+l.Value)
		}
		names = append(names, strings.Join(parts, ","))
	}
	return names, levels
}

func cells(s Shape) []bench.Cell {
	var out []bench.Cell
	names, levels := conditions(s)
	for k, condition := range names {
		for i, c := range s.Cells {
			out = append(out, bench.Cell{
				Name: c.Name, Condition: condition, Engine: c.Name, Baseline: i == 0,
				Levels: append([]bench.Label{{Key: "engine", Value: c.Name}}, levels[k]...),
			})
		}
		if !s.NoControl {
			control := out[len(out)-len(s.Cells)]
			control.Name, control.Baseline, control.Control = "control", false, true
			out = append(out, control)
		}
	}
	return out
}
