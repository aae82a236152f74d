// Package hyperfine renders the times of a report as the JSON that hyperfine exports, for what
// reads that: its scripts, and services that keep benchmarks. A command is a cell, and
// its times are those of the trials.
package hyperfine

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

type document struct {
	Results []result `json:"results"`
}

// A result has hyperfine's fields, all of them in seconds. User and system times are 0: tare counts
// those of containers, and not of commands.
type result struct {
	Command    string            `json:"command"`
	Mean       float64           `json:"mean"`
	StdDev     *float64          `json:"stddev"` // null for one value
	Median     float64           `json:"median"`
	User       float64           `json:"user"`
	System     float64           `json:"system"`
	Min        float64           `json:"min"`
	Max        float64           `json:"max"`
	Times      []float64         `json:"times"`
	ExitCodes  []int             `json:"exit_codes"`
	Parameters map[string]string `json:"parameters"`
}

// Write renders the primary metrics that are times. It is an error if there is none.
func Write(w io.Writer, d *report.Document) error {
	out := document{Results: []result{}}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		if m.Unit != unit.Seconds {
			continue
		}
		for _, c := range m.Conditions {
			for k := range c.Rows {
				if r, ok := resultOf(m, &c, &c.Rows[k]); ok {
					out.Results = append(out.Results, r)
				}
			}
		}
	}
	if len(out.Results) == 0 {
		return fmt.Errorf("no primary metric of this report is a time, and hyperfine's form has nothing else")
	}
	return plain.WriteJSON(w, out, "  ")
}

// resultOf sums up the values of one cell.
func resultOf(m *report.Metric, c *report.Condition, row *report.Row) (result, bool) {
	times := slices.DeleteFunc(slices.Clone([]float64(row.Values)), math.IsNaN)
	if len(times) == 0 || row.Median == nil {
		return result{}, false
	}
	r := result{
		Command: plain.Line(row.Cell), Median: *row.Median, Min: slices.Min(times), Max: slices.Max(times), Times: times,
		ExitCodes: make([]int, len(times)), Parameters: map[string]string{"metric": plain.Line(m.Name)},
	}
	if c.Condition != "" {
		r.Parameters["condition"] = plain.Line(c.Condition)
	}
	if row.Group != "" {
		r.Parameters["group"] = plain.Line(row.Group)
	}
	for _, t := range times {
		r.Mean += t / float64(len(times))
	}
	if len(times) > 1 {
		sum := 0.0
		for _, t := range times {
			sum += (t - r.Mean) * (t - r.Mean)
		}
		sd := math.Sqrt(sum / float64(len(times)-1))
		r.StdDev = &sd
	}
	return r, true
}
