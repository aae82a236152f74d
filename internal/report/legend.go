package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
)

// comparisons counts a metric's comparisons: those that could be made.
func (m *Metric) comparisons() int {
	n := 0
	for _, c := range m.tables() {
		for _, r := range c.Rows {
			if r.Effect != nil && r.Effect.Estimate != nil {
				n++
			}
		}
	}
	return n
}

// tables returns the conditions, and the summary if there is one.
func (m *Metric) tables() []Condition {
	if m.Summary == nil {
		return m.Conditions
	}
	return append(slices.Clone(m.Conditions), *m.Summary)
}

// legend says in one line how to read the tables; ratios says what their ratios compare.
func legend(comparisons int, tables []Table, ratios string) string {
	var parts []string
	switch {
	case !intervals(tables):
	case comparisons == 0:
		parts = append(parts, "[ ] 95 % interval of the median")
	case comparisons == 1:
		parts = append(parts, "[ ] 95 % interval of the comparison with the baseline")
	default:
		parts = append(parts, "[ ] 95 % interval")
	}
	if comparisons > 0 {
		parts = append(parts, ratios)
	}
	if comparisons > 1 {
		parts = append(parts, fmt.Sprintf("verdicts are adjusted for %d comparisons (Holm)", comparisons))
	}
	return strings.Join(parts, "; ")
}

// neededLegend says what the number of blocks is that an unclear comparison needs; empty where there is none.
// extensible says that the run can be extended here: that adds a look, which needs more blocks.
func neededLegend(primary []Metric, extensible bool) string {
	needs := slices.ContainsFunc(primary, func(m Metric) bool {
		return slices.ContainsFunc(m.tables(), func(c Condition) bool {
			return slices.ContainsFunc(c.Rows, func(r Row) bool {
				return r.Effect != nil && analysis.Verdict(r.Effect.Verdict) == analysis.Unclear && r.Effect.needed > 0
			})
		})
	})
	switch {
	case !needs:
		return ""
	case extensible:
		return "; needs ~N blocks: in all, if the run is extended; estimated from the noise so far"
	default:
		return "; needs ~N blocks: in all, estimated from the noise so far"
	}
}

// intervalColumn is the name of the column of intervals.
const intervalColumn = "95 % interval"

// intervals reports whether any table shows one.
func intervals(tables []Table) bool {
	for _, t := range tables {
		column := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == intervalColumn })
		if column < 0 {
			continue
		}
		for _, g := range t.Groups {
			for _, line := range g.Lines {
				if strings.HasPrefix(line.Cells[column], "[") { // it says why where there is none
					return true
				}
			}
		}
	}
	return false
}
