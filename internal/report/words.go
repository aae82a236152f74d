package report

import (
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// sayRun puts one run into words.
func (d *Document) sayRun(r *analysis.Result) {
	run := &d.Runs[0]
	d.Head = [][]string{
		append([]string{title(run)}, hostParts(&run.Host)...),
		append([]string{cellNames(r.Header.Plan.Cells)}, runParts(run, r.Header)...),
		engineParts(run.Engines),
	}
	d.Head = append(d.Head, awayParts(run.Engines)...)
	d.Head = append(d.Head, lookParts(run)...)
	marks := d.note(r.Warnings)
	if run.Trials.OK > 0 {
		details := d.sayMetrics(marks)
		if details >= foldedDetails && len(r.Header.Plan.Restrict) > 0 {
			d.Fold = fmt.Sprintf("%d details more: tare show %s --details", details, plain.Line(run.ID))
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
	d.Legend = legend(comparisons, d.Tables, "ratios are of pairs within a block, not of the medians")
	if slices.ContainsFunc(primary, func(m Metric) bool { return m.spread() }) {
		d.Legend += "; blocks ±: how far the baseline's trials differ from block to block (half of the distance between their quartiles)"
	}
	d.Details = detailTables(details, marks)
	for _, m := range details {
		d.Every = append(d.Every, metricTable(m, marks))
	}
	if len(primary) >= manyMetrics {
		d.sayTogether(primary, comparisons, marks)
	}
	return len(details)
}

// sayTogether shows many metrics at once and, of two cells, in sentences.
func (d *Document) sayTogether(primary []Metric, comparisons int, marks *marking) {
	d.Answers = answers(primary)
	if d.Answers == nil && comparisons == 0 {
		return
	}
	glance := matrix("at a glance", signs, primary, marks)
	if d.Answers != nil {
		// They say what the tables would, and leave their notes to the glance.
		marks.columns(&glance, primary[0].Conditions[0].Rows)
		d.Details, d.Every, d.Tables = slices.Concat(d.Tables, d.Details), slices.Concat(d.Tables, d.Every), nil
	}
	d.Tables = slices.Insert(d.Tables, 0, glance)
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
