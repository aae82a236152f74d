package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/unit"
)

// sayRun puts one run into words.
func (d *Document) sayRun(r *analysis.Result) {
	run := &d.Runs[0]
	d.Head = [][]string{
		append([]string{Clean(run.Experiment)}, hostParts(&run.Host)...),
		append([]string{cellNames(r.Header.Plan.Cells)}, runParts(run)...),
		engineParts(run.Engines),
	}
	d.Head = append(d.Head, awayParts(run.Engines)...)
	marks := d.note(r.Warnings)
	if run.Blocks > 0 {
		details := d.sayMetrics(marks)
		if details >= foldedDetails && len(r.Header.Plan.Restrict) > 0 {
			d.Fold = fmt.Sprintf("%d details more: tare show %s --details", details, Clean(run.ID))
		}
	}
	d.sayReasons()
	d.sayWays()
	d.sayFailures()
}

// sayMetrics makes the tables, and says how many details there are.
func (d *Document) sayMetrics(marks *marking) int {
	comparisons := 0
	var primary, details []Metric
	for _, m := range d.Metrics {
		switch {
		case m.Role != bench.Primary && m.measured():
			details = append(details, m)
			continue
		case !m.measured() && (m.Role != bench.Primary || d.anyMeasured()):
			continue // something that this run does not do
		}
		primary = append(primary, m)
		comparisons += m.comparisons()
	}
	for _, m := range primary {
		d.Tables = append(d.Tables, metricTable(m, marks))
	}
	d.Legend = legend(comparisons, d.Tables)
	if slices.ContainsFunc(primary, func(m Metric) bool { return m.spread() }) {
		d.Legend += "; blocks ±: how far the baseline's trials differ from block to block (half of the distance between their quartiles)"
	}
	if len(primary) >= manyMetrics && comparisons > 0 {
		d.Tables = slices.Insert(d.Tables, 0, matrix("at a glance", primary, marks))
	}
	d.Details = detailTables(details, marks)
	return len(details)
}

// anyMeasured reports whether any primary metric has a value.
func (d *Document) anyMeasured() bool {
	return slices.ContainsFunc(d.Metrics, func(m Metric) bool { return m.Role == bench.Primary && m.measured() })
}

// manyMetrics is from how many primary metrics on they are also shown together,
// manyDetails from how many on the details are shown as rows, and foldedDetails
// from how many on a terminal shows them only if it is asked to.
const (
	manyMetrics   = 4
	manyDetails   = 9
	foldedDetails = 20
)

// spread reports whether it is said how far blocks are apart.
func (m *Metric) spread() bool {
	return slices.ContainsFunc(m.Conditions, func(c Condition) bool { return c.Spread != nil })
}

// hostParts says what machine it was.
func hostParts(h *bench.HostFacts) []string {
	system, _, _ := strings.Cut(h.OS, " (")
	model, _, _ := strings.Cut(h.CPU, " @ ")
	model = strings.NewReplacer("(R)", "", "(TM)", "", " CPU", "", " Processor", "").Replace(model)
	return []string{
		Clean(h.Hostname),
		Clean(system + ", Linux " + h.Kernel),
		fmt.Sprintf("%d × %s", h.CPUs, Clean(strings.TrimSpace(model))),
		unit.Format(float64(h.Memory), unit.Bytes),
		"cgroup " + Clean(h.Cgroup),
	}
}

// cellNames lists what is compared. Beyond a dozen, the table does.
func cellNames(cells []bench.Cell) string {
	var names []string
	control := ""
	for _, c := range cells {
		switch name := Clean(c.Name); {
		case c.Control:
			control = " + control"
		case !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	if len(names) > 12 {
		return fmt.Sprintf("%d cells%s", len(names), control)
	}
	return strings.Join(names, ", ") + control
}

// runParts says how long it went on and why it ended.
func runParts(r *Run) []string {
	wall := time.Duration(r.Wall * float64(time.Second))
	parts := []string{
		fmt.Sprintf("%s in %s", plural(r.Blocks, "block"), unit.FormatDuration(wall.Round(100*time.Millisecond))),
		fmt.Sprintf("seed %d", r.Seed),
	}
	switch bench.StopReason(r.Stopped) {
	case bench.StopPrecision:
		return append(parts, "stopped: ±"+unit.FormatPercent(r.Precision)+" reached")
	case bench.StopBlocks:
		return append(parts, "stopped: all blocks done")
	case bench.StopBudget:
		return append(parts, "stopped: time used up")
	case bench.StopAllFailed:
		return append(parts, "stopped: every cell failed")
	default:
		return append(parts, "not finished")
	}
}

func engineParts(engines []bench.EngineInfo) []string {
	var out []string
	for _, e := range engines {
		if e.Version != "" && len(engines) <= 12 {
			out = append(out, Clean(e.Name+" "+e.Version))
		}
	}
	return out
}

// awayParts says on which other machines containers were made, and of which
// engines.
func awayParts(engines []bench.EngineInfo) [][]string {
	var lines [][]string
	at := map[string]int{} // lines by address
	for _, e := range engines {
		if e.Away == nil {
			continue
		}
		i, known := at[e.Away.Address]
		if !known {
			i = len(lines)
			at[e.Away.Address] = i
			where := fmt.Sprintf("at %s, %s away", Clean(e.Away.Address), unit.FormatDuration(e.Away.RoundTrip))
			lines = append(lines, append([]string{"", where}, hostParts(&e.Away.Host)...))
		}
		lines[i][0] = strings.TrimPrefix(lines[i][0]+", "+Clean(e.Name), ", ")
	}
	return lines
}

// plural writes a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return unit.Format(float64(n), unit.Count) + " " + thing + "s"
}

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

// legend says in one line how to read the tables.
func legend(comparisons int, tables []Table) string {
	var parts []string
	switch {
	case !intervals(tables):
	case comparisons == 0:
		parts = append(parts, "[ ] 95 % interval of the median")
	case comparisons == 1:
		parts = append(parts, "[ ] is the 95 % interval of the comparison with the baseline")
	default:
		parts = append(parts, "[ ] is each one's 95 % interval")
	}
	if comparisons > 1 {
		parts = append(parts, fmt.Sprintf("verdicts allow for all %d comparisons (Holm)", comparisons))
	}
	return strings.Join(parts, "; ")
}

// intervalColumn is the name of the column of intervals, which every table has.
const intervalColumn = "95 % interval"

// intervals reports whether any table shows one.
func intervals(tables []Table) bool {
	for _, t := range tables {
		column := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == intervalColumn })
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

// A marking says which notes a row refers to.
type marking struct {
	cells  map[int][]placed
	metric map[string][]int // of notes about a metric and no shown cell
}

type placed struct {
	metric string // empty = all
	mark   int
}

// of returns the marks of a cell in the table of a metric.
func (m *marking) of(cell int, metric string) []int {
	var out []int
	for _, p := range m.cells[cell] {
		if p.metric == "" || p.metric == metric {
			out = append(out, p.mark)
		}
	}
	return out
}

// note numbers the warnings that tables can refer to.
func (d *Document) note(all []bench.Warning) *marking {
	shown := d.shown()
	m := &marking{cells: make(map[int][]placed), metric: make(map[string][]int)}
	mark := 0
	for _, w := range all {
		n := Note{Text: Clean(w.Text), Hint: Clean(w.Hint)}
		known := shown.metric[w.Metric]
		cells := slices.DeleteFunc(slices.Clone(w.Cells), func(c int) bool { return !shown.cell[c] })
		switch {
		case len(cells) > 0 && len(cells) <= most && (known || w.Metric == ""):
			mark++
			n.Mark = mark
			for _, c := range cells {
				m.cells[c] = append(m.cells[c], placed{w.Metric, mark})
			}
		case known:
			mark++
			n.Mark = mark
			m.metric[w.Metric] = append(m.metric[w.Metric], mark)
		}
		d.Notes = append(d.Notes, n)
	}
	return m
}

// most is how many rows a note is marked at; one about more is about the table.
const most = 12

// shown says what has a row and what has a table: nothing where no block counts.
func (d *Document) shown() (s struct {
	cell   map[int]bool
	metric map[string]bool
},
) {
	s.cell, s.metric = make(map[int]bool), make(map[string]bool)
	if d.Runs[0].Blocks == 0 {
		return s
	}
	for _, m := range d.Metrics {
		s.metric[m.Name] = true
		for _, c := range m.Conditions {
			for _, r := range c.Rows {
				s.cell[r.index] = true
			}
		}
	}
	return s
}

// sayReasons puts the counters of each cell on a line, or on several where its
// metrics have different reasons.
func (d *Document) sayReasons() {
	for rest := d.Reasons; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(r Reason) bool { return r.Cell != rest[0].Cell || r.Condition != rest[0].Condition })
		if n < 0 {
			n = len(rest)
		}
		d.Words.Reasons = append(d.Words.Reasons, d.explain(rest[:n])...)
		rest = rest[n:]
	}
}

// explain says the reasons of one cell. Metrics that have one in common share a
// line; which they are is not said if that is all of them.
func (d *Document) explain(reasons []Reason) (lines []Line) {
	var titles [][]string // of the metrics of each line
	for _, m := range d.Metrics {
		var text []string
		for _, r := range reasons {
			if slices.ContainsFunc(r.For, func(e Explained) bool { return e.Metric == m.Name }) {
				text = append(text, r.say())
			}
		}
		if text == nil {
			continue
		}
		known := func(t string) bool { return slices.Contains(text, t) }
		i := slices.IndexFunc(lines, func(l Line) bool { return slices.ContainsFunc(l.Text, known) })
		if i < 0 {
			i = len(lines)
			lines, titles = append(lines, Line{}), append(titles, nil)
		}
		for _, t := range text {
			if !slices.Contains(lines[i].Text, t) {
				lines[i].Text = append(lines[i].Text, t)
			}
		}
		titles[i] = append(titles[i], Clean(m.Title))
	}
	for i := range lines {
		lines[i].Name = Clean(nameIn(reasons[0].Cell, reasons[0].Condition))
		if len(lines) > 1 {
			lines[i].Name += ", " + strings.Join(titles[i], ", ")
		}
	}
	return lines
}

// say writes a reason, such as "context switches ×35.3 (112 → 3,950)".
func (r *Reason) say() string {
	from, to := unit.Format(r.Baseline, unitName(r.Unit)), unit.Format(r.Value, unitName(r.Unit))
	how := ""
	if r.Effect.Scale == bench.Ratio && r.Effect.Estimate != nil {
		how = " " + unit.FormatRatio(*r.Effect.Estimate)
	}
	return fmt.Sprintf("%s%s (%s → %s)", Clean(r.Title), how, from, to)
}

// nameIn is the name of a cell outside of the table of its condition.
func nameIn(cell, condition string) string {
	return analysis.CellName(&bench.Cell{Name: cell, Condition: condition})
}

// sayWays says how packets went and where data lay.
func (d *Document) sayWays() {
	for _, w := range d.Ways {
		l := Line{Name: Clean(nameIn(w.Cell, w.Condition))}
		if len(w.Path) > 0 {
			l.Text = append(l.Text, "packets by "+Clean(strings.Join(w.Path, " → ")))
		}
		if w.Data != "" {
			l.Text = append(l.Text, "data on "+Clean(w.Data))
		}
		d.Words.Ways = append(d.Words.Ways, l)
	}
}

// sayFailures puts every trial that did not succeed into words.
func (d *Document) sayFailures() {
	for _, f := range d.Failed {
		if f.Outcome == bench.Unsupported {
			d.Words.Absent = append(d.Words.Absent, Line{Name: Clean(nameIn(f.Cell, f.Condition)), Text: []string{Clean(f.Reason)}})
			continue
		}
		what := fmt.Sprintf("%s %s", plural(f.Count, "trial"), strings.ReplaceAll(string(f.Outcome), "-", " "))
		if f.Warmup > 0 {
			what += fmt.Sprintf(" (%d while warming up)", f.Warmup)
		}
		if f.Operation != "" && !strings.HasPrefix(f.Reason, f.Operation+":") {
			what += " in " + f.Operation
		}
		if f.Reason != "" {
			what += ": " + f.Reason
		}
		d.Words.Failures = append(d.Words.Failures, Line{Name: Clean(nameIn(f.Cell, f.Condition)), Text: []string{Clean(what)}})
	}
}

// aside says what holds for a whole table.
func aside(m *Metric) string {
	var parts []string
	switch m.Better {
	case bench.Lower:
		parts = append(parts, "less is better")
	case bench.Higher:
		parts = append(parts, "more is better")
	}
	if len(m.Conditions) == 1 {
		parts = append(parts, variation(m, &m.Conditions[0])...)
	}
	return strings.Join(parts, " · ")
}

// variation says what differences are to be held against: the noise and, where it
// is known, how far the blocks are apart.
func variation(m *Metric, c *Condition) []string {
	var parts []string
	if s := noise(m, c); s != "" {
		parts = append(parts, s)
	}
	switch {
	case c.Spread == nil:
	case m.Scale == bench.Difference:
		parts = append(parts, "blocks ±"+unit.Format(*c.Spread, unitName(m.Unit)))
	default:
		parts = append(parts, "blocks ±"+unit.FormatPercent(roundTo(*c.Spread)))
	}
	return parts
}

// noise says how far apart the same thing came out.
func noise(m *Metric, c *Condition) string {
	n := c.Noise
	switch {
	case n == nil:
		return ""
	case n.Verdict == string(analysis.Different) && n.Estimate != nil:
		return "control differs by " + effectText(n, m.effects())[0]
	case n.Low == nil || n.High == nil:
		return "noise not known"
	case n.Scale == bench.Difference:
		return "noise ±" + unit.Format((*n.High-*n.Low)/2, unitName(m.Unit))
	default:
		return "noise ±" + unit.FormatPercent(roundTo(math.Sqrt(*n.High / *n.Low)-1))
	}
}

// roundTo leaves two significant digits of a share.
func roundTo(v float64) float64 {
	if v <= 0 {
		return v
	}
	scale := math.Pow(10, 1-math.Floor(math.Log10(v)))
	return math.Round(v*scale) / scale
}
