package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// metricTable is what people read first: one metric, a row for each cell.
func metricTable(m Metric, marks *markIndex) Table {
	t := Table{
		Title: plain.Line(m.Title), Subtitle: subtitle(&m), Marks: marks.metric[m.Name],
		Columns: []Column{
			{Name: "cell"}, {Name: "median", Right: true}, {Name: "against baseline"}, {Name: intervalColumn}, {Name: "verdict"},
		},
	}
	axis, in := newAxis(&m), m.scale()
	for _, c := range m.tables() {
		g := RowGroup{}
		if len(m.Conditions) > 1 {
			g.Title = groupTitle(&m, &c)
		}
		for _, r := range c.Rows {
			if m.Summary != nil && c.Condition == "" && r.Effect == nil {
				continue // a baseline has no value over all conditions
			}
			line := metricRow(&m, &r, in, axis, marks)
			if r.Effect != nil && analysis.Verdict(r.Effect.Verdict) == analysis.NotCompared && !r.Unsupported {
				why := "not under every condition"
				if m.Summary == nil || c.Condition != "" {
					why = notComparedReason(c.baseRow(), &r)
				}
				line.Cells[len(line.Cells)-1] = why
			}
			g.Lines = append(g.Lines, line)
		}
		if len(g.Lines) > 0 { // a summary of baselines alone has none
			t.Groups = append(t.Groups, g)
		}
	}
	return t
}

// baseRow is the row that the others are compared with; nil if there is none.
func (c *Condition) baseRow() *Row {
	i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Effect == nil })
	if i < 0 {
		return nil
	}
	return &c.Rows[i]
}

// notComparedReason says why a cell is not compared with the baseline.
func notComparedReason(base, r *Row) string {
	switch {
	case r.N == 0 && r.Failed > 0:
		return "failed"
	case r.N == 0:
		return "no value"
	case base != nil && base.N == 0 && base.Failed > 0:
		return "its baseline failed"
	case base != nil && base.N == 0:
		return "its baseline has no value"
	default:
		return "no pair"
	}
}

// measured reports whether any cell has a value of the metric.
func (m *Metric) measured() bool {
	return slices.ContainsFunc(m.Conditions, func(c Condition) bool {
		return slices.ContainsFunc(c.Rows, func(r Row) bool { return r.N > 0 })
	})
}

// groupTitle heads the rows of one condition.
func groupTitle(m *Metric, c *Condition) string {
	title := "all conditions together"
	if m.Summary == nil || c.Condition != "" {
		title = plain.Line(c.Condition)
	}
	return strings.Join(append([]string{title}, variationText(m, c)...), " · ")
}

// metricRow is one cell: name, median, effect, interval, verdict.
func metricRow(m *Metric, r *Row, in scale, axis axis, marks *markIndex) TableRow {
	value := ""
	switch {
	case r.N > 0:
		value = in.text(r.Median)
	case r.Unsupported:
		return TableRow{
			Cells: []string{plain.Line(r.Cell), unit.None, "not supported", "", ""}, Marks: marks.of(r.index, m.Name),
			Distance: r.Distance(),
		}
	}
	row := TableRow{
		Cells: []string{plain.Line(r.Cell), value, "", "", ""}, Marks: marks.of(r.index, m.Name), Distance: r.Distance(),
	}
	if r.Effect == nil {
		row.Cells[2] = "baseline"
		if m.comparisons() == 0 {
			row.Cells[2] = ""
		}
		row.Cells[3] = medianInterval(m, r, in)
		row.Bar = axis.one()
		return row
	}
	text := effectText(r.Effect, in)
	row.Cells[2], row.Cells[3] = text[0], text[1]
	row.Cells[4], row.Tone = verdictText(m, r.Effect)
	row.Bar = axis.bar(r.Effect)
	return row
}

// medianInterval is shown if there is nothing to compare with.
func medianInterval(m *Metric, r *Row, in scale) string {
	if m.comparisons() > 0 || r.Low == nil || r.High == nil || r.Median == nil {
		return ""
	}
	scale := in.of(*r.Median)
	return fmt.Sprintf("[%s, %s]", scale.Number(*r.Low), scale.Number(*r.High))
}

// effectText writes an estimate and its interval, or why there is none.
func effectText(e *Effect, in scale) [2]string {
	if e.Estimate == nil {
		return [2]string{unit.None, ""}
	}
	if e.Low == nil || e.High == nil {
		why := ""
		if e.Pairs > 0 {
			why = "only " + unit.FormatCount(e.Pairs, "pair")
		}
		if e.Scale == bench.Difference {
			return [2]string{withSign(in.difference(*e.Estimate).Format(*e.Estimate)), why}
		}
		return [2]string{unit.FormatRatio(*e.Estimate), why}
	}
	if e.Scale == bench.Difference {
		s := in.difference(*e.Estimate, *e.Low, *e.High)
		return [2]string{
			withSign(s.Format(*e.Estimate)), fmt.Sprintf("[%s, %s]", withSign(s.Number(*e.Low)), withSign(s.Number(*e.High))),
		}
	}
	f := unit.FormatRatios(*e.Estimate, *e.Low, *e.High)
	for i := range f[1:] { // the sign of the first one says what they are
		f[i+1] = strings.TrimSuffix(strings.TrimPrefix(f[i+1], "×"), " %")
	}
	return [2]string{f[0], fmt.Sprintf("[%s, %s]", f[1], f[2])}
}

// shiftLines say what cells have more or less of a metric, in its unit, a line for each condition.
func shiftLines(m *Metric) (lines []Line) {
	in := m.scale()
	for _, c := range m.Conditions {
		l := Line{Name: plain.Line(qualifiedName(m.Title, c.Condition))}
		for _, r := range c.Rows {
			if r.Effect == nil || r.Effect.Shift == nil || r.Effect.Shift.Low == nil {
				continue
			}
			s := r.Effect.Shift
			text := effectText(&Effect{Scale: bench.Difference, Estimate: &s.Estimate, Low: s.Low, High: s.High}, in)
			l.Text = append(l.Text, plain.Line(r.Cell)+" "+text[0]+" "+text[1])
		}
		if len(l.Text) > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}

// withSign puts a plus before what has no sign.
func withSign(s string) string {
	if strings.HasPrefix(s, "−") || strings.HasPrefix(s, "0") && strings.Trim(s, "0. ") == "" {
		return s
	}
	return "+" + s
}

// verdictText writes a verdict in the words of its metric.
func verdictText(m *Metric, e *Effect) (string, Tone) {
	less, more := m.words()
	switch v := analysis.Verdict(e.Verdict); v {
	case analysis.Worse, analysis.Better:
		tone := Bad
		if v == analysis.Better {
			tone = Good
		}
		if (v == analysis.Worse) == (m.Better == bench.Lower) {
			return more, tone
		}
		return less, tone
	case analysis.Different:
		if e.Estimate != nil && *e.Estimate < noDifference(e.Scale) {
			return less, Plain
		}
		return more, Plain
	case analysis.Same:
		return "same (" + margin(m, e) + ")", Plain
	case analysis.Unclear:
		if e.needed > 0 {
			return "unclear, needs ~" + unit.FormatCount(e.needed, "block"), Uncertain
		}
		return "unclear", Uncertain
	case analysis.Unreliable:
		return "unreliable", Uncertain
	case analysis.NotCompared:
		return "not compared", Uncertain
	case analysis.TooFewRuns:
		return "too few runs: no verdict", Uncertain
	default:
		return plain.Line(e.Verdict), Plain
	}
}

// margin is what counts as no difference.
func margin(m *Metric, e *Effect) string {
	if e.Scale == bench.Difference {
		return "±" + m.difference(e.Smallest)
	}
	return "±" + unit.FormatPercent(roundTo(e.Smallest))
}

// noDifference is the estimate of no effect.
func noDifference(s bench.Scale) float64 {
	if s == bench.Difference {
		return 0
	}
	return 1
}

// detailTables shows the details in a row each: what the cells differ by, or medians where nothing is compared.
func detailTables(details []Metric, marks *markIndex) []Table {
	if len(details) == 0 {
		return nil
	}
	subtitle := signs
	if details[0].comparisons() == 0 {
		subtitle = "medians"
	}
	return []Table{matrix("details", subtitle, details, marks)}
}

// An axis is the logarithmic axis that the bars of a table share.
type axis struct{ low, high float64 }

// newAxis spans every ratio of a metric, and 1. There is none for differences.
func newAxis(m *Metric) axis {
	var a axis
	for _, c := range m.tables() {
		for _, r := range c.Rows {
			if e := r.Effect; e != nil && e.Scale != bench.Difference && e.Estimate != nil && *e.Estimate > 0 {
				low, high := e.ends()
				a.low, a.high = min(a.low, low), max(a.high, high)
			}
		}
	}
	return a
}

// ends are the logarithms of an effect's interval, or of its estimate twice.
func (e *Effect) ends() (low, high float64) {
	if e.Low == nil || e.High == nil || *e.Low <= 0 {
		v := math.Log(*e.Estimate)
		return v, v
	}
	return math.Log(*e.Low), math.Log(*e.High)
}

// at returns the place of a logarithm.
func (a axis) at(v float64) float64 { return (v - a.low) / (a.high - a.low) }

// one is the bar of what is compared with.
func (a axis) one() *Bar {
	if a.low == a.high {
		return nil
	}
	at := a.at(0)
	return &Bar{One: at, Low: at, At: at, High: at}
}

func (a axis) bar(e *Effect) *Bar {
	if a.low == a.high || e.Scale == bench.Difference || e.Estimate == nil || *e.Estimate <= 0 {
		return nil
	}
	low, high := e.ends()
	return &Bar{One: a.at(0), Low: a.at(low), At: a.at(math.Log(*e.Estimate)), High: a.at(high)}
}

// Under is a title with the condition that it is of.
func Under(title, condition string) string {
	if condition == "" {
		return plain.Line(title)
	}
	return plain.Line(title + ", " + condition)
}
