// Package csv renders a report as comma-separated values (RFC 4180), one row
// for each cell, condition and metric, in base units.
package csv

import (
	"encoding/csv"
	"io"
	"strconv"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
)

// Write renders a report, with a line of names first.
func Write(w io.Writer, d *report.Document) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	names := header()
	if d.Kind == report.Comparison {
		names = append(names, inRunHeader()...)
	}
	if err := out.Write(names); err != nil {
		return err
	}
	for _, m := range d.Metrics {
		conditions := m.Conditions
		if m.Summary != nil {
			sum := *m.Summary
			sum.Condition = "all"
			conditions = append(conditions[:len(conditions):len(conditions)], sum)
		}
		for _, c := range conditions {
			for _, r := range c.Rows {
				fields := row(&m, &c, &r)
				if d.Kind == report.Comparison {
					fields = append(fields, inRun(r.InRun)...)
				}
				if err := out.Write(fields); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

func header() []string {
	return []string{
		"metric", "unit", "better", "role", "condition", "cell", "group", "baseline", "n", "failed", "median",
		"median_low", "median_high",
		"scale", "pairs", "estimate", "low", "high", "level", "p", "adjusted", "alpha", "smallest", "verdict", "blocks",
		"unreliable",
	}
}

// row is parallel to header. What there is not is empty.
func row(m *report.Metric, c *report.Condition, r *report.Row) []string {
	fields := []string{
		plain.Cell(m.Name), plain.Cell(m.Unit), string(m.Better), string(m.Role), plain.Cell(c.Condition), plain.Cell(r.Cell),
		plain.Cell(r.Group), plain.Cell(c.Baseline),
		strconv.Itoa(r.N), strconv.Itoa(r.Failed), optional(r.Median), optional(r.Low), optional(r.High),
	}
	e := r.Effect
	if e == nil {
		return append(fields, make([]string, len(header())-len(fields))...)
	}
	return append(fields,
		string(e.Scale), strconv.Itoa(e.Pairs), optional(e.Estimate), optional(e.Low), optional(e.High), number(e.Level),
		optional(e.P), optional(e.Adjusted), number(e.Alpha), number(e.Smallest), e.Verdict, strconv.Itoa(e.Blocks),
		strconv.FormatBool(c.Unreliable))
}

// inRunHeader is what a comparison has more.
func inRunHeader() []string {
	return []string{
		"in_run_baseline", "in_run_n", "in_run_median",
		"in_run_estimate", "in_run_low", "in_run_high", "in_run_p", "in_run_adjusted", "in_run_verdict",
	}
}

// inRun is parallel to inRunHeader.
func inRun(r *report.InRun) []string {
	fields := make([]string, len(inRunHeader()))
	if r == nil {
		return fields
	}
	fields[0], fields[1], fields[2] = plain.Cell(r.Baseline), strconv.Itoa(r.N), optional(r.Median)
	if e := r.Effect; e != nil {
		copy(fields[3:], []string{
			optional(e.Estimate), optional(e.Low), optional(e.High), optional(e.P), optional(e.Adjusted), e.Verdict,
		})
	}
	return fields
}

func optional(v *float64) string {
	if v == nil {
		return ""
	}
	return number(*v)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
