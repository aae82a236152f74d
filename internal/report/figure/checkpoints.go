package figure

import (
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// checkpointReading says what markCheckpoints draws.
const checkpointReading = " The bars at the foot are seconds with a checkpoint, in most trials that had any."

// checkpointsOf returns the curve that says when checkpoints were under way while a curve of seconds was measured; nil
// without one, and for itself.
func checkpointsOf(d *report.Document, c *report.Curve) *report.Curve {
	part, _, ok := strings.Cut(c.Metric, bench.PerSecond)
	name := part + bench.CheckpointSeries
	if !ok || c.Metric == name {
		return nil
	}
	i := slices.IndexFunc(d.Curves, func(o report.Curve) bool { return o.Metric == name && o.Condition == c.Condition })
	if i < 0 {
		return nil
	}
	return &d.Curves[i]
}

// markCheckpoints draws bars at the foot of a picture, in a row for each cell.
func markCheckpoints(b *canvas, x *axis, foot float64, checkpoints *report.Curve, cells []report.CurveCell) {
	const row, thick = 3.5, 2.5
	for n, cell := range cells {
		i := slices.IndexFunc(checkpoints.Cells, func(o report.CurveCell) bool { return o.Cell == cell.Cell })
		if i < 0 {
			continue
		}
		for k, share := range checkpoints.Cells[i].Median {
			if share > 0 {
				from := float64(checkpoints.Cells[i].At[k])
				y := foot - row*float64(n+1)
				b.line(x.at(max(x.from, from-0.5)), y, x.at(min(x.to, from+0.5)), y, lineInk(n), thick)
			}
		}
	}
}
