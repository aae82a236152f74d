package report

import (
	"slices"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
)

// sayRun puts one run into words.
func (d *Document) sayRun(r *analysis.Result, short Short) {
	run := &d.Runs[0]
	d.Head = [][]string{
		append([]string{title(run)}, hostParts(&run.Host)...),
		append([]string{cellNames(r.Header.Plan.Cells)}, runParts(run, r.Header)...),
		engineParts(run.Engines),
		writtenParts(run),
	}
	d.Head = append(d.Head, awayParts(run.Engines)...)
	d.Head = append(d.Head, lookParts(run)...)
	d.Head = append(d.Head, d.turnParts(&r.Header.Plan)...)
	marks := d.note(r.Warnings, short)
	if run.Trials.OK > 0 {
		d.sayMetrics(marks)
	}
	for i := range d.Spectra {
		d.View.Percentiles = append(d.View.Percentiles, *d.Spectra[i].Table())
	}
	d.sayReasons()
	d.writeDataPaths()
	d.sayLevels()
	d.sayTurns()
	d.View.Applied = appliedLines(d.Settings)
	d.View.Machine = machineLines(run)
	if r.Header.MeasuredBy == "" { // another program had no plan
		d.View.Plan = planLines(run)
	}
	d.sayFailures()
	d.Written = writtenLines(run)
}

// sayMetrics makes the tables.
func (d *Document) sayMetrics(marks *markIndex) {
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
		d.Shifts = append(d.Shifts, shiftLines(&m)...)
	}
	d.Legend = legend(comparisons, d.Tables, "changes come from pairs within a block, not from the medians")
	if slices.ContainsFunc(primary, func(m Metric) bool { return m.spread() }) {
		d.Legend += "; blocks ±: how much the baseline differs between blocks (half the interquartile range)"
	}
	d.Legend += neededLegend(primary, d.Runs[0].extensible())
	d.Details = detailTables(details, marks)
	for _, m := range details {
		d.DetailTables = append(d.DetailTables, metricTable(m, marks))
	}
	if len(primary) >= manyMetrics {
		d.sayTogether(primary, comparisons, marks)
	}
}

// sayTogether shows many metrics at once and, of two cells, in sentences.
func (d *Document) sayTogether(primary []Metric, comparisons int, marks *markIndex) {
	d.Answers = answers(primary)
	if d.Answers == nil && comparisons == 0 {
		return
	}
	glance := matrix("summary", signs, primary, marks)
	if d.Answers != nil {
		// The sentences say what the tables would, so the summary has the notes.
		marks.columns(&glance, primary[0].Conditions[0].Rows)
		d.Details, d.DetailTables, d.Tables = slices.Concat(d.Tables, d.Details), slices.Concat(d.Tables, d.DetailTables), nil
	}
	d.Tables = slices.Insert(d.Tables, 0, glance)
}

// anyMeasured reports whether any primary metric has a value.
func (d *Document) anyMeasured() bool {
	return slices.ContainsFunc(d.Metrics, func(m Metric) bool { return m.Role == bench.Primary && m.measured() })
}

// manyMetrics is from how many primary metrics on they are also shown together.
const manyMetrics = 4

// spread reports whether the tables show how far blocks are apart.
func (m *Metric) spread() bool {
	return slices.ContainsFunc(m.Conditions, func(c Condition) bool { return c.Spread != nil })
}
