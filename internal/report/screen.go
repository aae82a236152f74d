package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// sideBySide is how many cells beside the baseline have a column each; more have rows. So it is with
// conditions beside the first.
const sideBySide = 4

// sayScreen makes what people read first.
func (d *Document) sayScreen(r *analysis.Result, short Short) {
	run := &d.Runs[0]
	d.Screen.Title = screenTitle(run, r.Header.Plan.Cells)
	d.Screen.Remarks = screenRemarks(run)
	primary := d.primary()
	if run.Trials.OK > 0 && len(primary) > 0 {
		d.Screen.Tables = screenTables(primary)
	}
	d.Trust.settle(primary)
	d.Trust.SettleBudgets = d.Trust.budgets(run, r.BlockTime)
	d.Screen.Trust = d.trustText()
	d.Next = d.nextSteps(run, primary, r, short)
}

// screenTitle says what was measured, where, and against what.
func screenTitle(run *Run, cells []bench.Cell) string {
	s := title(run)
	if run.Host.Hostname != "" { // it can be unknown of what another program measured
		s += " on " + plain.Line(run.Host.Hostname)
	}
	var machine []string
	if run.Host.CPUs > 0 {
		machine = append(machine, unit.FormatCount(run.Host.CPUs, "CPU"))
	}
	if run.Host.Kernel != "" {
		machine = append(machine, "Linux "+plain.Line(run.Host.Kernel))
	}
	if len(machine) > 0 {
		s += " (" + strings.Join(machine, ", ") + ")"
	}
	var baselines []string
	compared := false
	for _, c := range cells {
		if c.Baseline && !slices.Contains(baselines, c.Name) {
			baselines = append(baselines, c.Name)
		}
		compared = compared || !c.Baseline && !c.Control
	}
	if compared && len(baselines) == 1 {
		s += ", against " + plain.Line(baselines[0])
	}
	switch run.Stopped {
	case stoppedIncomplete:
		s += ", not finished"
	case StillRunning:
		s += ", still running"
	}
	return s
}

// screenRemarks are the run's name and labels, the machines that lent engines, and looks.
func screenRemarks(run *Run) []string {
	all := writtenParts(run)
	for _, parts := range awayParts(run.Engines) {
		all = append(all, parts[0]+" "+parts[1])
	}
	for _, parts := range lookParts(run) {
		all = append(all, parts...)
	}
	return all
}

// primary lists the metrics that decide and that this run measures.
func (d *Document) primary() (all []Metric) {
	for _, m := range d.Metrics {
		if m.Role == bench.Primary && (m.measured() || !d.anyMeasured()) {
			all = append(all, m)
		}
	}
	return all
}

// screenTables chooses the shape: metrics against cells, conditions against cells, cells against
// conditions where the cells are many, or a row for each of both where both are.
func screenTables(primary []Metric) []Table {
	names := matrixCells(primary)
	conditions := len(primary[0].Conditions)
	switch {
	case conditions == 1 && len(names) <= 1+sideBySide:
		t := screenColumns("", names)
		t.Groups = []RowGroup{{}}
		for _, m := range primary {
			t.Groups[0].Lines = append(t.Groups[0].Lines, screenRow(plain.Line(m.Title), &m.Conditions[0], names))
		}
		return []Table{t}
	case len(names) <= 1+sideBySide:
		var all []Table
		for _, m := range primary {
			all = append(all, screenGrid(&m, names))
		}
		return all
	}
	var all []Table
	for _, m := range primary {
		if conditions > 1 && conditions <= 1+sideBySide {
			all = append(all, screenTurned(&m, names))
		} else {
			all = append(all, screenList(&m))
		}
	}
	return all
}

// screenColumns begins a table with a column for the baseline's value and one for each
// of the other cells.
func screenColumns(title string, names []string) Table {
	t := Table{Title: title, HasHeadings: true, Columns: []Column{{Name: title}}}
	for i, n := range names {
		t.Columns = append(t.Columns, Column{Name: plain.Line(n), Right: i == 0})
	}
	return t
}

// overview is all conditions together, where there is that, and then each of them.
func (m *Metric) overview() []Condition {
	if m.Summary == nil {
		return m.Conditions
	}
	return append([]Condition{*m.Summary}, m.Conditions...)
}

// heading names one of the overview.
func (m *Metric) heading(c *Condition) string {
	if m.Summary != nil && c.Condition == "" {
		return "all together"
	}
	return plain.Line(c.Condition)
}

// screenGrid has a row for all conditions together, and one for each of them.
func screenGrid(m *Metric, names []string) Table {
	t := screenColumns(plain.Line(m.Title), names)
	t.Groups = []RowGroup{{}}
	for _, c := range m.overview() {
		row := screenRow(m.heading(&c), &c, names)
		if c.Condition == "" {
			row.Distance = math.Inf(1) // all together are not left out
		}
		if c.Condition != "" || strings.Join(row.Cells[1:], "") != "" {
			t.Groups[0].Lines = append(t.Groups[0].Lines, row)
		}
	}
	return t
}

// screenTurned has a row for each cell, a column for all conditions together and one for each of them. The baseline's
// row has its values.
func screenTurned(m *Metric, names []string) Table {
	t := Table{HasHeadings: true, Columns: []Column{{Name: plain.Line(m.Title)}}, Groups: []RowGroup{{}}}
	far := distances(*m)
	for _, n := range names {
		t.Groups[0].Lines = append(t.Groups[0].Lines,
			TableRow{Cells: []string{plain.Line(n)}, Tones: []Tone{Plain}, Distance: far[n]})
	}
	for _, c := range m.overview() {
		t.Columns = append(t.Columns, Column{Name: m.heading(&c)})
		for i, n := range names {
			f, row := c.findingOf(n), &t.Groups[0].Lines[i]
			row.Cells, row.Tones = append(row.Cells, f.Text), append(row.Tones, f.tone)
		}
	}
	return t
}

// screenRow has what is known of each cell by its name.
func screenRow(label string, c *Condition, names []string) TableRow {
	row := TableRow{Cells: []string{label}, Tones: []Tone{Plain}, Distance: distance(c.Rows)}
	for _, n := range names {
		f := c.findingOf(n)
		row.Cells, row.Tones = append(row.Cells, f.Text), append(row.Tones, f.tone)
	}
	return row
}

// findingOf is what is known of a cell; empty where the condition has no such cell.
func (c *Condition) findingOf(cell string) Finding {
	i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Cell == cell })
	if i < 0 {
		return Finding{}
	}
	return shownFinding(&c.Rows[i])
}

// shownFinding is a row's finding; a summary's baseline has none.
func shownFinding(r *Row) Finding {
	if r.Finding == nil || r.Effect == nil && r.Median == nil && r.Failed == 0 && !r.Unsupported {
		return Finding{}
	}
	return *r.Finding
}

// screenList has a row for each cell, under all conditions together and under each.
func screenList(m *Metric) Table {
	t := Table{Title: plain.Line(m.Title), HasHeadings: true, Columns: []Column{{Name: plain.Line(m.Title)}, {}}}
	for _, c := range m.overview() {
		g := RowGroup{Title: m.heading(&c)}
		rows := slices.Clone(c.Rows)
		slices.SortStableFunc(rows, func(a, b Row) int { return order(a.Effect == nil) - order(b.Effect == nil) })
		for i := range rows {
			if f := shownFinding(&rows[i]); f.Text != "" {
				g.Lines = append(g.Lines, TableRow{
					Cells: []string{plain.Line(rows[i].Cell), f.Text}, Tones: []Tone{Plain, f.tone}, Distance: rows[i].Distance(),
				})
			}
		}
		t.Groups = append(t.Groups, g)
	}
	return t
}

// trustText is the line of trust: the level, the worst reason, how many blocks there are
// against those that a verdict needs, and how many warnings are not told here.
func (d *Document) trustText() string {
	t := d.Trust
	if d.Kind == OneRun && d.Runs[0].Trials.OK == 0 {
		return "Nothing was measured."
	}
	s, sep, reason := "Trust: "+string(t.Level), ": ", t.Reason
	if t.Level == analysis.NoClaim {
		s, sep = "Nothing is compared", "; "
	}
	undecided := t.undecidedText()
	if undecided != "" && len(t.Codes) > 0 && t.Codes[0] == analysis.CodeImprecise {
		reason = "" // it is the same in other words
	}
	if reason != "" {
		s += sep + reason
	}
	if reason != "" || t.Level == analysis.High {
		sep = "; "
	}
	switch {
	case d.Kind == Comparison && t.Needed > 0 && analysis.Unit(d.Unit) == analysis.UnitBlock:
		s += fmt.Sprintf("; %s would be enough", unit.FormatCount(t.Needed, d.Unit))
	case d.Kind == Comparison && t.Needed > 0:
		s += fmt.Sprintf("; %s of each would be enough", unit.FormatCount(t.Needed, d.Unit))
	case d.Kind == Comparison:
	case t.Needed == 0:
		s += "; " + unit.FormatCount(d.Runs[0].Blocks, "block")
	case t.Pairs < t.Needed:
		s += fmt.Sprintf("; %s, a verdict needs at least %d", unit.FormatCount(t.Pairs, "block"), t.Needed)
	case undecided != "":
		s += sep + undecided
	default:
		s += "; " + unit.FormatCount(t.Pairs, "block")
	}
	if more := d.untold(); more > 0 {
		s += "; " + unit.FormatCount(more, "more warning")
	}
	return s
}

// untold is how many warnings are neither the reason of the trust nor a remark of a comparison.
func (d *Document) untold() (n int) {
	reason := ""
	if len(d.Trust.Codes) > 0 {
		reason = d.Trust.Codes[0]
	}
	for _, w := range d.Warned {
		switch {
		case d.Kind == Comparison && isRemark(w.Code):
		case w.Code == reason:
			reason = "" // one of them is told
		default:
			n++
		}
	}
	return n
}

// undecidedText says how many comparisons are undecided, and how many blocks would decide the first and the last of
// them; empty where none could have a verdict yet, or all do.
func (t *Trust) undecidedText() string {
	if t.Undecided == 0 || t.Needed == 0 || t.Pairs < t.Needed {
		return ""
	}
	s := fmt.Sprintf("%d of %s undecided after %s", t.Undecided, unit.FormatCount(t.Compared, "comparison"),
		unit.FormatCount(t.Pairs, "block"))
	if len(t.Settle) == 0 {
		return s
	}
	needs := func(i int, in string) string {
		text := unit.Format(float64(t.Settle[i]), unit.Count) + in
		if len(t.SettleBudgets) > 0 {
			text += " (" + t.SettleBudgets[i] + " more)"
		}
		return text
	}
	switch {
	case len(t.needs) < t.Undecided: // what the others need is not known
		return s + "; the first needs about " + needs(0, " in all")
	case t.Settle[0] == t.Settle[1]:
		return s + "; about " + needs(0, " in all") + " would do"
	default:
		return s + "; the first needs about " + needs(0, " in all") + ", the last " + needs(1, "")
	}
}

// settle counts the comparisons and the undecided ones, and finds the range of blocks that these need.
func (t *Trust) settle(primary []Metric) {
	for _, m := range primary {
		for _, c := range m.Conditions {
			for _, r := range c.Rows {
				if r.Effect == nil || r.Effect.Estimate == nil {
					continue
				}
				t.Compared++
				if !r.isOpen() {
					continue
				}
				t.Undecided++
				if r.Effect.needed > 0 {
					t.needs = append(t.needs, r.Effect.needed)
				}
			}
		}
	}
	if len(t.needs) > 0 {
		t.Settle = []int{slices.Min(t.needs), slices.Max(t.needs)}
	}
}

// decidedWithin counts the undecided comparisons that probably need no more than this budget, as BudgetFor writes it,
// after so many blocks.
func (t *Trust) decidedWithin(budget string, blocks int, block time.Duration) (n int) {
	most, _ := unit.ParseDuration(budget) // of BudgetFor
	for _, needed := range t.needs {
		if own, _ := unit.ParseDuration(analysis.BudgetFor(needed-blocks, block)); own <= most {
			n++
		}
	}
	return n
}

// budgets is how much more time the blocks of Settle take; nil where the run cannot be extended.
func (t *Trust) budgets(run *Run, blockTime time.Duration) (all []string) {
	if !run.extensible() || blockTime <= 0 {
		return nil
	}
	for _, blocks := range t.Settle {
		all = append(all, analysis.BudgetFor(blocks-run.Blocks, blockTime))
	}
	return all
}

// Longest is the longest time that anybody is advised to measure for.
const Longest = 2 * time.Hour

// nextSteps are at most two commands. A run that was imported can only be shown here.
func (d *Document) nextSteps(run *Run, primary []Metric, r *analysis.Result, short Short) (steps []Step) {
	id := short.name(run)
	differs := slices.ContainsFunc(primary, func(m Metric) bool {
		return slices.ContainsFunc(m.tables(), func(c Condition) bool {
			return slices.ContainsFunc(c.Rows, func(r Row) bool { return r.isUnreliable() })
		})
	})
	switch {
	case run.Stopped == stoppedIncomplete && !run.imported:
		steps = append(steps, Step{"tare resume " + id, "finishes this run"})
	case !run.extensible() || run.Blocks == 0 || d.Trust.Undecided == 0 && !differs:
	case differs, 3*r.Wall > Longest: // more blocks would not help
		steps = append(steps, Step{"tare doctor", "shows what disturbs this machine; then run again"})
	default:
		blocks, gives := 3*run.Blocks, "would halve all ranges"
		possible := d.Trust.Pairs >= d.Trust.Needed
		if !possible {
			// A quarter more, since later blocks can take longer.
			blocks = (d.Trust.Extended - d.Trust.Pairs) * 5 / 4
			gives = fmt.Sprintf("should make verdicts possible: extended, it needs at least %s",
				unit.FormatCount(d.Trust.Extended, "block"))
		}
		budget := analysis.BudgetFor(blocks, r.BlockTime)
		if n := d.Trust.decidedWithin(budget, run.Blocks, r.BlockTime); possible && n > 0 {
			gives += fmt.Sprintf(", may decide %d of %d", n, d.Trust.Undecided)
		}
		steps = append(steps, Step{"tare resume " + id + " --budget " + budget, gives})
	}
	if run.Trials.OK == 0 {
		return steps
	}
	return append(steps, Step{"tare show " + id + " --all", d.withWarnings("intervals, all metrics")})
}

// withWarnings adds to what a command gives that it shows warnings, where there are some.
func (d *Document) withWarnings(gives string) string {
	if len(d.Warned) > 0 {
		gives += ", warnings"
	}
	return gives
}

func (r *Row) isUnreliable() bool {
	return r.Effect != nil && analysis.Verdict(r.Effect.Verdict) == analysis.Unreliable
}

// isOpen reports whether more blocks could tell more of a row. Of what is unreliable they could not.
func (r *Row) isOpen() bool {
	if r.isUnreliable() {
		return false
	}
	return r.Finding != nil && slices.Contains([]FindingKind{AtMost, Unknown, Unconfirmed}, r.Finding.Kind)
}
