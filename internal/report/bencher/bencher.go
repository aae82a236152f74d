// Package bencher renders a report in Bencher's metric format: for each experiment, condition and
// cell, the median of each metric with the ends of its interval.
package bencher

import (
	"io"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
)

// A measure is one value in that format.
type measure struct {
	Value float64  `json:"value"`
	Lower *float64 `json:"lower_value,omitempty"`
	Upper *float64 `json:"upper_value,omitempty"`
}

// Write renders a report. Names are those of tare, with slashes between their parts.
func Write(w io.Writer, d *report.Document) error {
	out := map[string]map[string]measure{}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		for _, c := range m.Conditions {
			for _, r := range c.Rows {
				if r.Median == nil {
					continue
				}
				name := nameOf(d.Runs[0].Experiment, c.Condition, r.Cell, r.Group)
				if out[name] == nil {
					out[name] = map[string]measure{}
				}
				out[name][plain.Line(m.Name)] = measure{*r.Median, r.Low, r.High}
			}
		}
	}
	return plain.WriteJSON(w, out, "  ")
}

func nameOf(parts ...string) (name string) {
	for _, p := range parts {
		if p == "" {
			continue
		}
		if name != "" {
			name += "/"
		}
		name += plain.Line(p)
	}
	return name
}
