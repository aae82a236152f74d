package experiment

import (
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// Excluded lists the levels that flags name and that no cell of the plan has, which was
// made of this experiment. Engines that auto stands for are not named, and what the
// plain process stands for is there.
func (e *Experiment) Excluded(plan bench.Plan) []bench.Label {
	var out []bench.Label
	for _, f := range slices.Concat(e.file.factors, e.file.conditions) {
		for _, l := range f.levels {
			label := bench.Label{Key: f.name, Value: l.name}
			hasIt := func(c bench.Cell) bool { return slices.Contains(c.Levels, label) }
			if f.at.Flag != "" && !l.isAuto() && !slices.ContainsFunc(plan.Cells, hasIt) &&
				!isPlain(choice{f.name, l}, plan.Cells) {
				out = append(out, label)
			}
		}
	}
	return out
}

// isPlain reports whether the plain process stands for a level: for the network that is
// called so and, where there are no other cells, for the host's, which it has.
func isPlain(c choice, cells []bench.Cell) bool {
	if c.factor != "network" || c.level.isNamed {
		return false
	}
	if isNative([]choice{c}) {
		return slices.ContainsFunc(cells, func(c bench.Cell) bool { return c.Engine == native })
	}
	return c.level.name == "host" && onlyPlain(cells)
}

// Ignored reports whether a level is Excluded because all cells of the plan are plain
// processes, to which the factor does not apply.
func Ignored(l bench.Label, plan bench.Plan) bool {
	return slices.Contains(isolationFactors(), l.Key) && onlyPlain(plan.Cells)
}

func onlyPlain(cells []bench.Cell) bool {
	return !slices.ContainsFunc(cells, func(c bench.Cell) bool { return c.Engine != native })
}
