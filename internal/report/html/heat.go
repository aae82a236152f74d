package html

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
)

// leastHeat is from how many conditions on their findings are also shown as a map.
const leastHeat = 3

// heats are the findings of a metric by the levels of its conditions: of one condition a table with a row
// for each cell, of more a table for each cell. The condition with most levels has the columns.
func heats(m *report.Metric, l *limits) (all []tableView) {
	if len(m.Conditions) < leastHeat {
		return nil
	}
	column := widestCondition(m)
	if column == "" {
		return nil
	}
	cells, far := comparedCells(m)
	kept := report.Farthest(cells, max(1, l.heats()/len(m.Conditions)), func(cell string) float64 { return far[cell] })
	if len(m.Conditions[0].Levels) == 1 {
		all = []tableView{heat(m, column, "", kept)}
	} else {
		for _, cell := range kept {
			all = append(all, heat(m, column, cell, kept))
		}
	}
	if len(all) > 0 {
		all[len(all)-1].LeftOut = l.leftOut(count(len(kept), len(cells), "cell"))
	}
	return all
}

// comparedCells lists the cells that have a difference, and how far they are from the baseline at most.
func comparedCells(m *report.Metric) (cells []string, far map[string]float64) {
	far = map[string]float64{}
	for _, c := range m.Conditions {
		for i := range c.Rows {
			r := &c.Rows[i]
			if r.Effect == nil {
				continue
			}
			if _, ok := far[r.Cell]; !ok {
				cells = append(cells, r.Cell)
			}
			far[r.Cell] = max(far[r.Cell], r.Distance())
		}
	}
	return cells, far
}

// widestCondition is the condition with the most levels; empty where conditions have none.
func widestCondition(m *report.Metric) (key string) {
	levels, most := map[string][]string{}, 1
	for _, c := range m.Conditions {
		for _, l := range c.Levels {
			if !slices.Contains(levels[l.Key], l.Value) {
				levels[l.Key] = append(levels[l.Key], l.Value)
			}
		}
	}
	for _, l := range m.Conditions[0].Levels {
		if n := len(levels[l.Key]); n > most {
			key, most = l.Key, n
		}
	}
	return key
}

// heat is one table: of one cell or, without a cell, of all of those that are kept.
func heat(m *report.Metric, column, cell string, kept []string) tableView {
	baseline, several := baselineOf(m)
	v := tableView{
		Title:   plain.Line(fmt.Sprintf("%s against %s, by %s", m.Title, baseline, column)),
		Columns: []report.Column{{Name: "cell"}},
		Groups:  []groupView{{}},
		Heat:    true,
	}
	if cell != "" {
		v.Title = plain.Line(fmt.Sprintf("%s of %s against %s, by %s", m.Title, cell, baseline, column))
		v.Columns[0].Name = rowHeading(m, column)
	}
	var columns, rows []string
	found := map[[2]string]cellView{}
	for i := range m.Conditions {
		c := &m.Conditions[i]
		level, others := splitLevels(c.Levels, column)
		if !slices.Contains(columns, level) {
			columns = append(columns, level)
		}
		for k := range c.Rows {
			r := &c.Rows[k]
			name := others
			if cell == "" {
				name = plain.Line(r.Cell)
			}
			if r.Effect == nil || cell != "" && r.Cell != cell || !slices.Contains(kept, r.Cell) {
				continue
			}
			if !slices.Contains(rows, name) {
				rows = append(rows, name)
			}
			found[[2]string{name, level}] = heatCell(r, versus(c, several))
		}
	}
	for _, level := range columns {
		v.Columns = append(v.Columns, report.Column{Name: plain.Line(column + "=" + level)})
	}
	for _, name := range rows {
		line := lineView{Cells: []cellView{{Text: name, Head: true}}}
		for _, level := range columns {
			one, ok := found[[2]string{name, level}]
			if !ok {
				one = cellView{Text: "–", Class: "plain"}
			}
			line.Cells = append(line.Cells, one)
		}
		v.Groups[0].Lines = append(v.Groups[0].Lines, line)
	}
	return v
}

// baselineOf names the baseline; several says that conditions have different ones.
func baselineOf(m *report.Metric) (name string, several bool) {
	for _, c := range m.Conditions[1:] {
		if c.Baseline != m.Conditions[0].Baseline {
			return "the baseline of each condition", true
		}
	}
	return m.Conditions[0].Baseline, false
}

// versus names the baseline of a condition, where others have another one.
func versus(c *report.Condition, several bool) string {
	if !several {
		return ""
	}
	return " against " + plain.Line(c.Baseline)
}

// rowHeading names the conditions of the rows.
func rowHeading(m *report.Metric, column string) string {
	var keys []string
	for _, l := range m.Conditions[0].Levels {
		if l.Key != column {
			keys = append(keys, l.Key)
		}
	}
	return plain.Line(strings.Join(keys, ", "))
}

// splitLevels takes the level of one condition out of all.
func splitLevels(levels []report.ConditionLevel, key string) (level, others string) {
	var parts []string
	for _, l := range levels {
		if l.Key == key {
			level = l.Value
			continue
		}
		parts = append(parts, l.Key+"="+l.Value)
	}
	return level, plain.Line(strings.Join(parts, ", "))
}

// heatCell is what is known of a cell, on a colour that says how much it is. Only what is
// confirmed has one: a colour would claim what nobody knows.
func heatCell(r *report.Row, against string) cellView {
	c := cellView{Text: "–", Class: "plain"}
	if r.Finding != nil && r.Finding.Text != "" {
		c.Text = plain.Line(r.Finding.Text) + against
	}
	switch analysis.Verdict(r.Effect.Verdict) {
	case analysis.Worse:
		c.Class = fmt.Sprintf("h%d", heatStep(r.Effect))
	case analysis.Better:
		c.Class = fmt.Sprintf("h-%d", heatStep(r.Effect))
	case analysis.Unclear, analysis.Unreliable:
		// A bound is something known.
		if r.Finding == nil || r.Finding.Kind != report.AtMost {
			c.Class = "unsure"
		}
	}
	return c
}

// heatStep is 1 for small effects, 2 for those beyond a tenth and 3 for those beyond a half.
func heatStep(e *report.Effect) int {
	if e.Estimate == nil || e.Scale == bench.Difference {
		return 1
	}
	switch size := math.Abs(math.Log(*e.Estimate)); {
	case size > math.Log(1.5):
		return 3
	case size > math.Log(1.1):
		return 2
	}
	return 1
}
