package timeline

import (
	"github.com/tare-bench/tare/internal/bench"
)

// Analyze makes the timelines of all traced trials of a run, which must have been read with the traces
// of its samples. It does not change the run. The result has no Cells if no trial was traced.
func Analyze(run *bench.Run) *Result {
	return &Result{}
}

// Between compares two cells, given as indices in Plan.Cells. It returns false if one of them
// has no complete timeline in a block in which the other has one.
func (r *Result) Between(cell, base int) (Difference, bool) {
	return Difference{}, false
}

// Of returns the cell with an index in Plan.Cells; nil if it has no traced trials.
func (r *Result) Of(cell int) *Cell {
	for i := range r.Cells {
		if r.Cells[i].Cell == cell {
			return &r.Cells[i]
		}
	}
	return nil
}
