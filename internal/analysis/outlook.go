package analysis

import (
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// An Outlook is what a run can be expected to leave unclear, judged by blocks of such a run.
type Outlook struct {
	Compared int // comparisons of the primary metrics
	Unclear  int // of these, the ones that a run of that length probably does not decide
	// Needs is how many blocks in total would decide one of them, the least first. Those for which that is not known
	// are left out.
	Needs []int
}

// OutlookOf judges a run of so many blocks by the first blocks of one with the same cells. It claims nothing: how much
// values scatter says how many blocks a verdict takes, whatever the verdict is.
func OutlookOf(run *bench.Run, blocks int) (Outlook, error) {
	first := bench.Run{Header: run.Header}
	first.Samples = slices.DeleteFunc(slices.Clone(run.Samples), func(s bench.Sample) bool {
		return s.Trial.Block >= blocks
	})
	r, err := Analyze(&first, Options{})
	if err != nil {
		return Outlook{}, err
	}
	var o Outlook
	for _, m := range r.Metrics {
		if m.Metric.Role != bench.Primary {
			continue
		}
		for _, c := range m.Conditions {
			for _, cell := range c.Cells {
				if cell.Comparison == nil || cell.Comparison.Pairs == 0 {
					continue
				}
				o.Compared++
				needed := cell.Comparison.Blocks
				if cell.Comparison.Verdict != Unclear || needed > 0 && needed <= blocks {
					continue
				}
				o.Unclear++
				if needed > 0 {
					o.Needs = append(o.Needs, needed)
				}
			}
		}
	}
	slices.Sort(o.Needs)
	return o, nil
}
