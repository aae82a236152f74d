package experiment

import (
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// Excluded lists the levels that flags name and that the experiment excludes with
// whatever they are combined: no cell has them.
func (e *Experiment) Excluded() []bench.Label {
	p := &planner{file: e.file}
	var out []bench.Label
	for _, f := range slices.Concat(e.file.factors, e.file.conditions) {
		for _, l := range f.levels {
			if f.at.Flag != "" && p.excluded([]choice{{f.name, l}}) {
				out = append(out, bench.Label{Key: f.name, Value: l.name})
			}
		}
	}
	return out
}
