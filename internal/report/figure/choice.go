package figure

import (
	"fmt"
	"math"
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/unit"
)

// shownRows are the rows with values, the baseline and those that differ most, and how many have values.
func shownRows(c *report.Condition) (rows []*report.Row, all int) {
	for i := range c.Rows {
		if c.Rows[i].N > 0 {
			rows = append(rows, &c.Rows[i])
		}
	}
	return report.Farthest(rows, MaxCells, (*report.Row).Distance), len(rows)
}

// fewCells keeps as many cells as lines can be told apart: the baseline, and those that differ most at the last
// percentile that they have.
func fewCells(s report.Spectrum) *report.Spectrum {
	s.Cells = report.Farthest(s.Cells, len(lineColors), func(c report.SpectrumCell) float64 {
		if c.Cell == s.Baseline {
			return math.Inf(1)
		}
		size := 0.0
		for _, p := range c.Points {
			if p.Change != nil && p.Change.Estimate != nil {
				size = math.Abs(math.Log(*p.Change.Estimate))
			}
		}
		return size
	})
	return &s
}

// tooMany reports whether a cell has more values than are drawn.
func tooMany(r *report.Row) bool { return len(r.Values) > maxPoints }

// skipped says how many positions of a long series a curve has, and where all are; empty where it has all.
func skipped(c *report.Curve) string {
	if c.Length <= analysis.MaxCurve {
		return ""
	}
	return fmt.Sprintf("Drawn are %d of %s positions, evenly; tare export has all.",
		len(positions(c)), unit.Format(float64(c.Length), unit.Count))
}

// Which cells are drawn, where there are too many.
const (
	differMost = "the baseline and those that differ most"
	firstOnes  = "those that the plan has first"
)

// leftOut says what alone is drawn, and where the rest is; empty where all is drawn.
func leftOut(drawn, all int, which string, values bool) string {
	var parts []string
	if drawn < all {
		parts = append(parts, fmt.Sprintf("%d of %s (%s)", drawn, unit.FormatCount(all, "cell"), which))
	}
	if values {
		parts = append(parts, fmt.Sprintf("at most %d values of a cell", maxPoints))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Not everything is drawn, but " + strings.Join(parts, " and ") + "; the report as JSON (--json) has all."
}
