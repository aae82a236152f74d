package app

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet/odd"
	fleetreport "github.com/tare-bench/tare/internal/report/fleet"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// An explanation is a number by which a node may differ from the others of its group.
type explanation struct {
	metric string // a counter or state of the host
	words  string
	// per is what the counter is a share of: see below; "" = it is no share.
	per   string
	floor float64 // a smaller difference is none: of shares, or as a ratio
}

// What a counter is a share of.
const (
	perCPU  = "cpu"    // the time of all CPUs
	perTime = "time"   // the time of the trial
	per100  = "100 ms" // it is so already
)

// explanations are those that are looked at, in this order.
func explanations() []explanation {
	return []explanation{
		{"steal_time", "stolen time", perCPU, 0.01},
		{"inside.throttled", "throttled by a CPU quota", per100, 0.01},
		{"cpu_pressure", "a thread waiting for a CPU", perTime, 0.05},
		{"memory_pressure", "a thread waiting for memory", perTime, 0.02},
		{"io_pressure", "a thread waiting for a disk", perTime, 0.05},
		{"user_time", "CPU time in programs", perCPU, 0.10},
		{"system_time", "CPU time in the kernel", perCPU, 0.05},
		{"irq_time", "CPU time in interrupts", perCPU, 0.02},
		{"softirq_time", "CPU time in software interrupts", perCPU, 0.02},
		{"swap_ins", "pages read from swap", "", 10},
		{"cpu_frequency", "CPU frequency", "", 0.03},
		{"load", "load average", "", 1},
	}
}

// explain reads from a run what may explain it: the medians over its trials.
func explain(r *bench.Run) []float64 {
	all := explanations()
	out := make([]float64, len(all))
	for i, e := range all {
		at := slices.IndexFunc(r.Header.Metrics, func(m bench.Metric) bool { return m.Name == e.metric })
		var values []float64
		for k := range r.Samples {
			s := &r.Samples[k]
			v, ok := s.Value(at)
			if !ok || s.Trial.Warmup() || s.Trial.Traced || !r.Header.Plan.Cells[s.Trial.Cell].Baseline {
				continue
			}
			switch e.per {
			case perCPU:
				v /= s.Counted.Seconds() * float64(max(1, r.Header.Host.CPUs))
			case perTime:
				v /= s.Counted.Seconds()
			case per100:
				v /= 0.1
			}
			if !math.IsInf(v, 0) && !math.IsNaN(v) {
				values = append(values, v)
			}
		}
		out[i] = medianOf(values)
	}
	return out
}

// A fact is something that a node says of itself, and that nearly all others of its group say otherwise.
type fact struct {
	words string
	of    func(h *bench.HostFacts) string
}

func facts() []fact {
	return []fact{
		{"CPU", func(h *bench.HostFacts) string { return h.CPU }},
		{"CPUs", func(h *bench.HostFacts) string { return strconv.Itoa(h.CPUs) }},
		{"kernel", func(h *bench.HostFacts) string { return h.Kernel }},
		{"frequency governor", func(h *bench.HostFacts) string { return h.Governor }},
		{"clock", func(h *bench.HostFacts) string { return h.Clock }},
		{"virtualization", func(h *bench.HostFacts) string { return h.Virtual }},
		{"mitigations", func(h *bench.HostFacts) string { return h.Mitigations }},
	}
}

func factsOf(h *bench.HostFacts) (out []string) {
	for _, f := range facts() {
		out = append(out, f.of(h))
	}
	return out
}

// maxFact bounds how much of a fact is shown, in bytes.
const maxFact = 60

// explainNodes says of the nodes that stand out in what they clearly differ from the others of their groups. That is
// no proof of a cause.
func explainNodes(in *fleetreport.Input, runs [][2]*nodeRun) [][][]string {
	known := map[int][]string{} // by node
	out := make([][][]string, len(in.Metrics))
	for m := range in.Metrics {
		out[m] = make([][]string, len(in.Fleet.Nodes))
		for n, f := range in.Judged.Findings[m] {
			if !standsOut(f.Verdict) || runs[n][0] == nil {
				continue
			}
			if _, ok := known[n]; !ok {
				known[n] = whatDiffers(in, runs, n)
			}
			out[m][n] = known[n]
		}
	}
	return out
}

func standsOut(v odd.Verdict) bool {
	return slices.Contains([]odd.Verdict{odd.Slow, odd.Fast, odd.Suspect, odd.Unsteady}, v)
}

// whatDiffers says in what a node differs from the others of its group.
func whatDiffers(in *fleetreport.Input, runs [][2]*nodeRun, node int) (out []string) {
	var others []*nodeRun
	for n, both := range runs {
		if n != node && both[0] != nil && in.Fleet.Nodes[n].Group == in.Fleet.Nodes[node].Group {
			others = append(others, both[0])
		}
	}
	if len(others) == 0 {
		return nil
	}
	for i, e := range explanations() {
		var values []float64
		for _, o := range others {
			if !math.IsNaN(o.why[i]) {
				values = append(values, o.why[i])
			}
		}
		if text := e.differs(runs[node][0].why[i], values); text != "" {
			out = append(out, text)
		}
	}
	for i, f := range facts() {
		count := map[string]int{}
		for _, o := range others {
			count[o.facts[i]]++
		}
		own := runs[node][0].facts[i]
		for usual, n := range count {
			if n*10 >= len(others)*9 && usual != own && usual != "" && own != "" {
				out = append(out, fmt.Sprintf("%s %s (others %s)", f.words, short(own), short(usual)))
			}
		}
	}
	if o := in.Fleet.OutcomeOf(in.Fleet.Nodes[node].Name, 1); o != nil {
		for _, text := range o.Admitted {
			out = append(out, plain.Line(text))
		}
	}
	return out
}

func short(text string) string {
	if len(text) > maxFact {
		text = text[:maxFact] + "…"
	}
	return plain.Line(text)
}

// differs says how a value differs clearly from those of the others; "" if it does not.
func (e *explanation) differs(own float64, others []float64) string {
	if math.IsNaN(own) || len(others) == 0 {
		return ""
	}
	center := stat.Median(others)
	apart := make([]float64, len(others))
	for i, v := range others {
		apart[i] = math.Abs(v - center)
	}
	const clear = 5 // times the spread of the others
	floor := e.floor
	if e.metric == "cpu_frequency" {
		floor *= center
	}
	if math.Abs(own-center) <= max(floor, clear*1.4826*stat.Median(apart)) {
		return ""
	}
	return fmt.Sprintf("%s %s (others %s)", e.words, e.format(own), e.format(center))
}

func (e *explanation) format(v float64) string {
	switch {
	case e.per != "":
		return unit.FormatPercent(v)
	case e.metric == "cpu_frequency":
		return unit.Format(v, "1/s")
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}
