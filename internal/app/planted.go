package app

import (
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
	"github.com/tare-bench/tare/internal/workload/density"
	"github.com/tare-bench/tare/internal/workload/lifecycle"
	"github.com/tare-bench/tare/internal/workload/pull"
	"github.com/tare-bench/tare/internal/workload/start"
)

// CodePlanted is the warning of a run in which starts were delayed on purpose.
const CodePlanted = "planted"

// startTimes lists the metrics that have the step "start" of a trial in their time, which a plant delays. The survey
// of a host puts the name of the part before some of them.
func startTimes() []string {
	lives := []string{lifecycle.First, lifecycle.Total, lifecycle.Start}
	starts := []string{density.EachStart, density.FirstStart, density.LastStart, density.FillTime}
	all := slices.Concat(lives, starts, []string{start.Ready, start.Started, start.Port, pull.Cold, pull.Start})
	for _, name := range lives {
		all = append(all, "start."+name)
	}
	for _, name := range starts {
		all = append(all, "density."+name)
	}
	return all
}

// ShowsPlants reports whether a primary metric shows that a start was delayed on purpose.
func (p *Planned) ShowsPlants() bool {
	return slices.ContainsFunc(p.Workload.Metrics(), func(m bench.Metric) bool {
		return p.Plan.Role(m) == bench.Primary && slices.Contains(startTimes(), m.Name)
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
