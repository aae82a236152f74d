package figure

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// mostConfirmed is the row with the largest difference that is confirmed; nil without any.
func mostConfirmed(rows []report.Row) (most *report.Row) {
	for i := range rows {
		r := &rows[i]
		if confirmed(r) && (most == nil || r.Distance() > most.Distance()) {
			most = r
		}
	}
	return most
}

func confirmed(r *report.Row) bool { return r.Finding != nil && r.Finding.Kind == report.Differs }

// rowsOf are those of a metric under a condition; nil where there is no such metric.
func rowsOf(d *report.Document, metric, condition string) []report.Row {
	for i := range d.Metrics {
		for k := range d.Metrics[i].Conditions {
			if c := &d.Metrics[i].Conditions[k]; d.Metrics[i].Name == metric && c.Condition == condition {
				return c.Rows
			}
		}
	}
	return nil
}

// spectrumFinding says which cell differs most at the last percentile that confirms a difference, and where cells are
// farthest apart, which can be beyond all that is tested.
func spectrumFinding(d *report.Document, s *report.Spectrum) string {
	title := report.Under(s.Title, s.Condition)
	cell, point := widestChange(s)
	if point == nil {
		return title + ": nothing is compared."
	}
	return fmt.Sprintf("%s: %s; the largest ratio, which claims nothing, is that of %s at %s, %s.", title,
		confirmedPercentile(d, s), plain.Line(cell), report.PercentileName(point.P), point.Change.Text())
}

// confirmedPercentile is the first half of that. A percentile is tested if it is a metric, such as latency.p99.
func confirmedPercentile(d *report.Document, s *report.Spectrum) string {
	for _, p := range slices.Backward(s.Percentiles()) {
		if r := mostConfirmed(rowsOf(d, s.Metric+"."+report.PercentileName(p), s.Condition)); r != nil {
			return fmt.Sprintf("at %s, the last percentile with a confirmed difference, %s differs most from %s: %s",
				report.PercentileName(p), label(r), plain.Line(s.Baseline), plain.Line(r.Finding.Text))
		}
	}
	return "no percentile has a confirmed difference from " + plain.Line(s.Baseline)
}

// widestChange is the point that is farthest from the baseline's; nil where nothing is compared.
func widestChange(s *report.Spectrum) (cell string, widest *report.SpectrumPoint) {
	size := -1.0
	for _, c := range s.Cells {
		for i := range c.Points {
			p := &c.Points[i]
			if p.Change == nil || p.Change.Estimate == nil {
				continue
			}
			if is := math.Abs(math.Log(*p.Change.Estimate)); is > size {
				cell, widest, size = c.Cell, p, is
			}
		}
	}
	return cell, widest
}

// curveFinding says where each line begins and ends: nothing is compared.
func curveFinding(c *report.Curve) string {
	position, sequence := order(c)
	write := func(v float64) string { return unit.Format(v, shorten(plain.Line(c.Unit), 12)) }
	var parts []string
	for _, one := range c.Cells {
		first, last := one.Median[0], one.Median[len(one.Median)-1]
		parts = append(parts, plain.Line(one.Cell)+" "+write(first)+" and "+write(last))
	}
	return fmt.Sprintf("%s, %s, in the first %s and the last: %s.",
		report.Under(c.Title, c.Condition), sequence, position, strings.Join(parts, "; "))
}

// levelsFinding says under which condition a cell differs most, and how many of them confirm a difference of it.
func levelsFinding(title string, all []report.Condition) string {
	var at *report.Condition
	var most *report.Row
	compared := false
	for i := range all {
		c := &all[i]
		compared = compared || slices.ContainsFunc(c.Rows, func(r report.Row) bool { return r.Effect != nil })
		if r := mostConfirmed(c.Rows); r != nil && (most == nil || r.Distance() > most.Distance()) {
			at, most = c, r
		}
	}
	switch {
	case most != nil:
		return fmt.Sprintf("%s: under %s, %s differs most from %s: %s; of its differences, %d of %d are confirmed.", title,
			plain.Line(at.Condition), label(most), plain.Line(at.Baseline), plain.Line(most.Finding.Text),
			confirmedOf(all, most.Cell), len(all))
	case compared:
		return title + ": no difference is confirmed under any of these conditions."
	default:
		return title + ": nothing is compared."
	}
}

// confirmedOf counts the conditions under which a difference of a cell is confirmed.
func confirmedOf(all []report.Condition, cell string) (n int) {
	for _, c := range all {
		if slices.ContainsFunc(c.Rows, func(r report.Row) bool { return r.Cell == cell && confirmed(&r) }) {
			n++
		}
	}
	return n
}
