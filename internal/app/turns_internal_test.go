package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
)

// Cells take turns only where that changes nothing.
func TestChooseTurns(t *testing.T) {
	quota := bench.Spec{Limits: bench.Limits{CPUs: 0.5}}
	two := []bench.Cell{{Name: "native", Baseline: true}, {Name: "runc"}}
	of := func(params ...string) []bench.Cell {
		cells := []bench.Cell{two[0], two[1]}
		for i := range cells {
			cells[i].Params = map[string]string{}
			for k := 0; k < len(params); k += 2 {
				cells[i].Params[params[k]] = params[k+1]
			}
		}
		return cells
	}
	some := func(n int, condition string, spec bench.Spec) (cells []bench.Cell) { // and as many under another one
		for range n {
			cells = append(cells, bench.Cell{Condition: "all"}, bench.Cell{Name: "few", Condition: condition, Spec: spec})
		}
		return cells
	}
	for name, test := range map[string]struct {
		workload string
		plan     bench.Plan
		remote   bool
		slice    bool
		whole    []bench.Whole
	}{
		"cpu":                  {"cpu", bench.Plan{Cells: two}, false, true, nil},
		"survey":               {"survey", bench.Plan{Cells: two}, false, true, nil},
		"one cell":             {"cpu", bench.Plan{Cells: two[:1]}, false, false, nil},
		"another machine":      {"net-rtt", bench.Plan{Cells: two}, true, false, nil},
		"counted calls":        {"cpu", bench.Plan{Cells: two, Syscalls: true}, false, false, nil},
		"nothing that goes on": {"pull", bench.Plan{Cells: two}, false, false, nil},
		"a tool":               {"cpu", bench.Plan{Cells: of("tool", "sysbench")}, false, false, nil},
		"reads":                {"disk", bench.Plan{Cells: of("patterns", "randread")}, false, true, nil},
		"files in memory": {"disk", bench.Plan{Cells: of("direct", "auto", "size", "6GiB")}, false, false, []bench.Whole{{
			Reason: "all cells together would keep more than half of the memory",
		}}},
		"files on a disk":      {"disk", bench.Plan{Cells: of("direct", "yes", "size", "6GiB")}, false, true, nil},
		"writes":               {"disk", bench.Plan{Cells: of("patterns", "randwrite,fsync")}, false, false, nil},
		"an open loop":         {"http", bench.Plan{Cells: of("rate", "100")}, false, false, nil},
		"a closed loop":        {"http", bench.Plan{Cells: of("connections", "16")}, false, true, nil},
		"few requests":         {"http", bench.Plan{Cells: of("requests", "1000")}, false, false, nil},
		"few, in rounds":       {"http", bench.Plan{Cells: of("requests", "1000", "repeat", "20")}, false, true, nil},
		"an image":             {"image", bench.Plan{Cells: of("few.requests", "1000", "few.repeat", "20")}, false, true, nil},
		"a rate of requests":   {"net-rtt", bench.Plan{Cells: of("rate", "100")}, false, false, nil},
		"datagrams":            {"net-throughput", bench.Plan{Cells: of("protocol", "udp")}, false, false, nil},
		"reads of a database":  {"postgres", bench.Plan{Cells: of("parts", "read1,read")}, false, true, nil},
		"its writes":           {"postgres", bench.Plan{Cells: of("parts", "read1,write1")}, false, false, nil},
		"its inserts":          {"postgres", bench.Plan{Cells: of("parts", "load", "script", "insert")}, false, false, nil},
		"its open loop":        {"postgres", bench.Plan{Cells: of("parts", "load", "rate", "70%")}, false, false, nil},
		"each its connection":  {"postgres", bench.Plan{Cells: of("parts", "read", "connect", "each")}, false, false, nil},
		"too large a database": {"postgres", bench.Plan{Cells: of("parts", "read", "scale", "10000")}, false, false, nil},
		"one start":            {"lifecycle", bench.Plan{Cells: two}, false, false, nil},
		"many cells":           {"cpu", bench.Plan{Cells: make([]bench.Cell, 25)}, false, false, nil},
		"many with a quota": {"cpu", bench.Plan{Cells: some(20, "cpus=0.5", quota)}, false, true, []bench.Whole{{
			Condition: "cpus=0.5", Reason: "few has a CPU quota, which a container that rests between turns would never meet",
		}}},
		"starts":         {"lifecycle", bench.Plan{Cells: of("starts", "5")}, false, true, nil},
		"memory":         {"memory", bench.Plan{Cells: two}, false, false, nil},
		"in huge pages":  {"memory", bench.Plan{Cells: of("pages", "transparent")}, false, true, nil},
		"reserved pages": {"memory", bench.Plan{Cells: of("pages", "huge")}, false, false, nil},
		"too large for all": {"memory", bench.Plan{Cells: of("pages", "transparent", "size", "2GiB")}, false, false, []bench.Whole{{
			Reason: "all cells together would keep more than half of the memory",
		}}},
		"a hook before trials": {"cpu", bench.Plan{
			Cells: two, Hooks: []bench.Hook{{When: bench.BeforeTrial, Do: bench.HookDropCaches}},
		}, false, false, nil},
		"a hook before blocks": {"cpu", bench.Plan{
			Cells: two, Hooks: []bench.Hook{{When: bench.BeforeBlock, Do: bench.HookDropCaches}},
		}, false, true, nil},
		"a quota": {"cpu", bench.Plan{Cells: []bench.Cell{{Name: "a"}, {Name: "b", Spec: quota}}}, false, false, []bench.Whole{{
			Reason: "b has a CPU quota, which a container that rests between turns would never meet",
		}}},
		"a population": {"lifecycle", bench.Plan{Cells: of("starts", "5", "population", "3")}, false, false, nil},
		"a quota under one condition": {"cpu", bench.Plan{Cells: []bench.Cell{
			{Name: "a", Condition: "cpus=2"},
			{Name: "b", Condition: "cpus=2"},
			{Name: "a", Condition: "cpus=0.5", Spec: quota},
			{Name: "b", Condition: "cpus=0.5", Spec: quota},
		}}, false, true, []bench.Whole{{
			Condition: "cpus=0.5", Reason: "a has a CPU quota, which a container that rests between turns would never meet",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Planned{Plan: test.plan, Workload: workloadNamed(test.workload)}
			p.Plan.Slice = experiment.AutoSlice
			p.chooseTurns(test.remote, 1<<34)
			if got := p.Plan.Slice > 0; got != test.slice {
				t.Errorf("slice %v, want one: %v", p.Plan.Slice, test.slice)
			}
			if silent := len(test.plan.Cells) < 2; test.slice != (len(p.Plan.Whole) == 0) && test.whole == nil && !silent {
				t.Errorf("slice %v, whole because of %v", p.Plan.Slice, p.Plan.Whole)
			}
			if diff := cmp.Diff(test.whole, p.Plan.Whole); test.whole != nil && diff != "" {
				t.Errorf("whole (-want +got):\n%s", diff)
			}
		})
	}
}
