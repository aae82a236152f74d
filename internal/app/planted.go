package app

import (
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// CodePlanted is the warning of a run in which starts were delayed on purpose.
const CodePlanted = "planted"

// ShowsPlants reports whether a primary metric shows that a start was delayed on purpose.
func (p *Planned) ShowsPlants() bool {
	w, ok := p.Workload.(bench.Starter)
	return ok && slices.ContainsFunc(p.Workload.Metrics(), func(m bench.Metric) bool {
		return p.Plan.Role(m) == bench.Primary && slices.Contains(w.StartTimes(), m.Name)
	})
}

// planted warns of every delay that a plan makes on purpose: nobody may take its run for a
// measurement of the cell.
func planted(p *bench.Plan) (all []bench.Warning) {
	for _, x := range p.Plants {
		all = append(all, bench.Warning{
			Code: CodePlanted, Cells: []int{x.Cell},
			Text: fmt.Sprintf("each start of %s was delayed by %s on purpose", p.Cells[x.Cell].FullName(),
				unit.FormatDuration(x.Delay)),
			Hint: "this run shows that a difference is found; measure without --plant",
		})
	}
	return all
}
