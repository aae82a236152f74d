package app

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// chooseTurns decides which cells of the plan take turns with the others of their block. Where turns
// would change what is measured none are taken, and the plan says why. Memory is that of the machine, in
// bytes; 0 = not known.
func (p *Planned) chooseTurns(remote bool, memory int64) {
	plan := &p.Plan
	if plan.Slice == 0 {
		return
	}
	if len(plan.Cells) < 2 {
		plan.Slice = 0 // there is nobody to take turns with
		return
	}
	_, keyed := p.Workload.(bench.FixtureKeyer)
	var why string
	switch {
	case keyed || !takesTurns(p.Workload, plan.Cells):
		why = "workload " + plan.Workload + " with these options has nothing in which cells can take turns"
	case remote:
		why = "the engines are on another machine"
	case plan.Syscalls:
		why = "system calls are counted"
	case hooksBetween(plan.Hooks):
		why = "there is a hook before each trial"
	}
	if why != "" {
		plan.Slice, plan.Whole = 0, []bench.Whole{{Reason: why}}
		return
	}
	for _, c := range plan.Cells {
		if why := wholeBecause(c.Spec); why != "" && plan.TakesTurnsIn(c.Condition) {
			plan.Whole = append(plan.Whole, bench.Whole{Condition: c.Condition, Reason: c.Name + " has " + why})
		}
	}
	together := slices.Clone(plan.Cells)
	together = slices.DeleteFunc(together, func(c bench.Cell) bool { return !plan.TakesTurnsIn(c.Condition) })
	switch {
	case len(together) == 0:
		plan.Slice = 0
	case len(together) > mostTogether:
		why = fmt.Sprintf("there are %d cells, and at most %d are kept alive together", len(together), mostTogether)
	case tooLarge(p.Workload, together, memory):
		why = "all cells together would keep more than half of the memory"
	}
	if why != "" {
		plan.Slice, plan.Whole = 0, []bench.Whole{{Reason: why}}
	}
}

// mostTogether is how many cells of a block may be alive together. A round of 24 slices takes half a second already:
// disturbances of that length no longer meet all cells alike. And engines have work with containers that rest.
const mostTogether = 24

// takesTurns reports whether the workload has stages that can take turns, in every cell.
func takesTurns(w bench.Workload, cells []bench.Cell) bool {
	taker, ok := w.(bench.TurnTaker)
	if !ok {
		return false
	}
	for _, c := range cells {
		if !taker.TakesTurns(withDefaults(w, c.Params)) {
			return false
		}
	}
	return true
}

// wholeBecause says what of a cell turns would change; empty if nothing.
func wholeBecause(s bench.Spec) string {
	if s.Limits.CPUs > 0 {
		return "a CPU quota, which a container that rests between turns would never meet"
	}
	return ""
}

// tooLarge reports whether the cells of a block together keep more than half of the machine's memory.
func tooLarge(w bench.Workload, cells []bench.Cell, machine int64) bool {
	h, ok := w.(bench.Hoarder)
	if !ok || machine <= 0 {
		return false
	}
	var sum int64
	for _, c := range cells {
		sum += h.RestingMemory(withDefaults(w, c.Params))
	}
	return sum > machine/2
}

// hooksBetween reports whether something happens on the host between two trials of a block.
func hooksBetween(hooks []bench.Hook) bool {
	for _, h := range hooks {
		if h.When == bench.BeforeTrial {
			return true
		}
	}
	return false
}

// withDefaults returns the options of a cell with the workload's defaults.
func withDefaults(w bench.Workload, given map[string]string) map[string]string {
	all := map[string]string{}
	for _, p := range w.Params() {
		all[p.Name] = p.Default
	}
	maps.Copy(all, given)
	return all
}
