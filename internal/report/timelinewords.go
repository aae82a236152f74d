package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Who names the role of a row, and how many processes of it there were if they were several. It is harmless
// everywhere.
func (r *TimelineRow) Who() string { return plain.Line(r.Role) + times(r.Processes, " ×%s") }

// What says what the time of a row was spent on: whether the processes ran or waited, for what, and the calls
// or functions that took most. It is harmless everywhere.
func (r *TimelineRow) What() string {
	var named []string
	for _, x := range r.Reasons {
		if name := plain.Line(x.Name); name != "" && len(named) < mostReasons {
			named = append(named, name+times(x.Times, " %s×"))
		}
	}
	return spentOn(timeline.Kind(r.Kind), timeline.Class(r.Class), named)
}

// mostReasons is how many reasons of a row are named.
const mostReasons = 3

// spentOn says how time was spent: "waits: storage (fsync 2×)".
func spentOn(k timeline.Kind, c timeline.Class, named []string) string {
	s := plain.Line(string(k))
	if c != timeline.Code && c != timeline.Other && c != "" {
		s += ": " + plain.Line(string(c))
	}
	if len(named) == 0 {
		return s
	}
	return s + " (" + strings.Join(named, ", ") + ")"
}

// times writes how often something was there, with one decimal where it is not the same in each trial;
// nothing for once.
func times(n float64, format string) string {
	tenths := math.Round(finite(n) * 10)
	if tenths <= 10 {
		return ""
	}
	return fmt.Sprintf(format, strconv.FormatFloat(tenths/10, 'f', -1, 64))
}

// timelineWarnings say why the times of a cell are to be read with care.
func timelineWarnings(c *timeline.Cell) []string {
	all := []string{}
	if c.Cost.Blocks > 0 && c.Cost.Ratio > timeline.TooCostly {
		all = append(all, "its traced trials took more than 15 % longer than its timed ones, by tracing or by chance: read "+
			"the times as shares, not as milliseconds")
	}
	if c.Lost > 0 {
		these := "the trials that lost some are"
		if c.Lost == 1 {
			these = "the trial that lost it is"
		}
		all = append(all, fmt.Sprintf("the kernel had no room for %s, so %s in no mean", unit.FormatCount(c.Lost, "event"),
			these))
	}
	if c.NoStack > 0 {
		all = append(all, "the kernel gave no functions for "+unit.FormatCount(c.NoStack, "event")+": such waits have the "+
			"name of their system call")
	}
	if n, why := incomplete(c); n > 0 {
		all = append(all, fmt.Sprintf("%s %s incomplete and in no mean: %s", unit.FormatCount(n, "traced trial"),
			isOrAre(n), plain.Line(why)))
	}
	if n := c.Complete; n > 0 && n < bench.MinTimelines {
		all = append(all, fmt.Sprintf("only %s: below %d, chance has a large part in each row; a longer budget gives more",
			unit.FormatCount(n, "complete traced trial"), bench.MinTimelines))
	}
	if c.Failed > 0 {
		all = append(all, unit.FormatCount(c.Failed, "traced trial")+" failed")
	}
	return all
}

// incomplete counts the timelines that are incomplete for another reason than lost events, and has the first reason.
func incomplete(c *timeline.Cell) (n int, why string) {
	for i := range c.Timelines {
		if t := &c.Timelines[i]; t.Incomplete != "" && t.Lost == 0 {
			n, why = n+1, cmp.Or(why, t.Incomplete)
		}
	}
	return n, why
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// Name is the cell with its condition, harmless everywhere.
func (c *TimelineCell) Name() string { return plain.Line(qualifiedName(c.Cell, c.Condition)) }

// Summary says what was traced: "docker: 324 ms [318, 331] in 7 trials; traced trials took +3 % [+1, +5]".
func (c *TimelineCell) Summary() string {
	if c.Value == nil {
		return c.Name() + ": no complete trace"
	}
	return fmt.Sprintf("%s: %s in %s%s", c.Name(), c.Value.Text(false),
		unit.FormatCount(c.Complete, "trial"), c.costText())
}

// costText is what traced trials took more than timed ones.
func (c *TimelineCell) costText() string {
	if c.Cost == nil || c.Cost.Estimate == nil {
		return ""
	}
	return "; traced trials took " + costRange(c.Cost)
}

// costRange writes a ratio near 1 in whole percent: "+3 % [+1, +5]".
func costRange(i *Interval) string {
	percent := func(v *float64) string {
		return Signed(math.Round((*v-1)*100), unit.Scaler{})
	}
	s := percent(i.Estimate) + " %"
	if i.Low != nil && i.High != nil {
		s += " [" + percent(i.Low) + ", " + percent(i.High) + "]"
	}
	return s
}

// Name is what is compared: "docker − runc".
func (d *TimelineDifference) Name() string {
	return plain.Line(qualifiedName(d.Cell, d.Condition)) + " − " + plain.Line(d.Base)
}

// Summary says how much the cells differ: "docker − runc = +268 ms [+251, +290]".
func (d *TimelineDifference) Summary() string {
	return d.Name() + " = " + d.Mean.Text(true)
}

// TimedText says what the cells differ by without tracing, and what tracing costs: "timed without tracing: +201 ms
// [+196, +206]; traced trials took +3 % [+1, +5] (docker), 0 % [−1, +2] (runc)". It is empty without timed trials.
func (d *TimelineDifference) TimedText() string {
	if d.Timed == nil {
		return ""
	}
	s := "timed without tracing: " + d.Timed.Text(true)
	var costs []string
	for _, c := range []struct {
		name string
		cost *Interval
	}{{qualifiedName(d.Cell, d.Condition), d.CellCost}, {d.Base, d.BaseCost}} {
		if c.cost != nil && c.cost.Estimate != nil {
			costs = append(costs, costRange(c.cost)+" ("+plain.Line(c.name)+")")
		}
	}
	if len(costs) > 0 {
		s += "; traced trials took " + strings.Join(costs, ", ")
	}
	return s
}

// RestText says what is not in the rows; empty if nothing is left.
func (d *TimelineDifference) RestText() string {
	const small = "what is too small for a row"
	more := "row"
	if len(d.Rows) > 0 {
		more = "more row"
	}
	switch {
	case d.Folded > 0:
		return fmt.Sprintf("%s without evidence of a difference, and %s", unit.FormatCount(d.Folded, more), small)
	case d.Rest != 0:
		return small
	default:
		return ""
	}
}

// Text writes an average with its interval; a difference has signs.
func (m *Mean) Text(signed bool) string {
	s := unit.Scale(unit.Seconds, m.Value)
	value := s.Format(m.Value)
	if signed {
		value = Signed(m.Value, s) + " " + s.Suffix
	}
	if in := m.IntervalText(s, signed); in != "" {
		return value + " " + in
	}
	return value
}

// IntervalText writes the interval without its unit: "[251, 290]"; empty without one.
func (m *Mean) IntervalText(s unit.Scaler, signed bool) string {
	if m.Low == nil || m.High == nil {
		return ""
	}
	write := s.Number
	if signed {
		write = func(v float64) string { return Signed(v, s) }
	}
	return "[" + write(*m.Low) + ", " + write(*m.High) + "]"
}

// Signed writes a number without its unit and with its sign, also that of more than 0.
func Signed(v float64, s unit.Scaler) string {
	n := s.Number(v)
	if v > 0 && strings.ContainsAny(n, "123456789") {
		return "+" + n
	}
	return n
}

// rowScale suits most rows of a table: those that are a tenth of the largest.
func rowScale(rows []TimelineRow, rest float64) unit.Scaler {
	largest := math.Abs(rest)
	for i := range rows {
		largest = max(largest, math.Abs(rows[i].Mean.Value))
	}
	return unit.Scale(unit.Seconds, largest/10)
}

// AddTimelines adds the timelines of the run that the document is about; nil = there are none.
func (d *Document) AddTimelines(t *Timelines) {
	if t == nil {
		return
	}
	d.Timelines, d.View.Timelines = t, t.DifferenceTables()
	for i := range t.Cells {
		if c := &t.Cells[i]; c.Value != nil {
			d.View.Timelines = append(d.View.Timelines, c.Table())
		}
	}
	if n := len(d.Next); n > 0 {
		if show, ok := strings.CutSuffix(d.Next[n-1].Command, " --all"); ok {
			d.Next[n-1] = Step{show + " --timeline", "where the time goes, process by process"}
		}
	}
}

// PictureSteps are the commands that show the timelines of the document's run as pictures.
func (d *Document) PictureSteps(short Short) []Step {
	id := short.name(&d.Runs[0])
	return []Step{
		{"tare report " + id + " --open", "the same as pictures"},
		{"tare export " + id + " --format trace -o trace.json", "for ui.perfetto.dev"},
	}
}

// DifferenceTables say for each difference where it comes from.
func (t *Timelines) DifferenceTables() (tables []Table) {
	for i := range t.Differences {
		tables = append(tables, differenceTable(&t.Differences[i], plain.Line(t.Title)))
	}
	return tables
}

// differenceTable has the rows that differ, and what is left.
func differenceTable(d *TimelineDifference, title string) Table {
	s := rowScale(d.Rows, d.Rest)
	t := Table{
		Title: d.Summary(), HasHeadings: true, Columns: timelineColumns("more"), Groups: []RowGroup{{}},
		Subtitle: title + "; means of traced trials, with intervals that hold for all rows together",
	}
	if timed := d.TimedText(); timed != "" {
		t.Subtitle += "; " + timed
	}
	for i := range d.Rows {
		r := &d.Rows[i]
		t.Groups[0].Lines = append(t.Groups[0].Lines, TableRow{
			Cells: []string{r.Who(), r.What(), Signed(r.Mean.Value, s) + " " + s.Suffix, r.Mean.IntervalText(s, true)},
		})
	}
	if rest := d.RestText(); rest != "" {
		t.Groups[0].Lines = append(t.Groups[0].Lines, TableRow{
			Cells: []string{"all else", rest, Signed(d.Rest, s) + " " + s.Suffix, ""},
		})
	}
	return t
}

// Table has every row of a cell. It is empty without a complete trial.
func (c *TimelineCell) Table() Table {
	s := rowScale(c.Rows, 0)
	t := Table{
		Title: c.Summary(), HasHeadings: true, Subtitle: "where the time goes, on average",
		Columns: timelineColumns("time"), Groups: []RowGroup{{}},
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		t.Groups[0].Lines = append(t.Groups[0].Lines, TableRow{
			Cells: []string{r.Who(), r.What(), s.Format(r.Mean.Value), r.Mean.IntervalText(s, false)},
		})
	}
	return t
}

func timelineColumns(value string) []Column {
	return []Column{{Name: "who"}, {Name: "what"}, {Name: value, Right: true}, {Name: "95 % interval", Right: true}}
}

// Longest are the rows that take most of a cell's time, in words: at most so many.
func (c *TimelineCell) Longest(most int) string {
	var parts []string
	for i := range c.Rows[:min(most, len(c.Rows))] {
		r := &c.Rows[i]
		parts = append(parts, fmt.Sprintf("%s %s (%s)", unit.Format(r.Mean.Value, unit.Seconds), r.Who(), r.What()))
	}
	return strings.Join(parts, "; ")
}
