// Package openmetrics renders a report as OpenMetrics text, for Prometheus' textfile collector
// and whatever else scrapes. All of it is gauges without timestamps, which that collector
// refuses. The run's ID is only in tare_run_info: as a label of every value it would make
// new series for each run.
package openmetrics

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A family is the samples of one metric of OpenMetrics, which must stand together.
type family struct {
	name, unit, help string
	lines            []string
}

// families keep their order.
type families struct{ all []*family }

func (f *families) of(name, unit, help string) *family {
	for _, x := range f.all {
		if x.name == name {
			return x
		}
	}
	x := &family{name: name, unit: unit, help: help}
	f.all = append(f.all, x)
	return x
}

// add appends a sample; a value that is not there is left out.
func (x *family) add(labels string, v *float64) {
	if v != nil && !math.IsNaN(*v) {
		x.lines = append(x.lines, x.name+labels+" "+strconv.FormatFloat(*v, 'g', -1, 64))
	}
}

// Write renders a report.
func Write(w io.Writer, d *report.Document) error {
	f := &families{}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		for k := range m.Conditions {
			c := &m.Conditions[k]
			for j := range c.Rows {
				f.row(d, m, c, &c.Rows[j])
			}
		}
	}
	f.runs(d)
	b := bufio.NewWriter(w)
	for _, x := range f.all {
		fmt.Fprintf(b, "# TYPE %s gauge\n", x.name)
		if x.unit != "" {
			fmt.Fprintf(b, "# UNIT %s %s\n", x.name, x.unit)
		}
		fmt.Fprintf(b, "# HELP %s %s\n", x.name, x.help)
		for _, line := range x.lines {
			fmt.Fprintln(b, line)
		}
	}
	fmt.Fprintln(b, "# EOF")
	return b.Flush()
}

// unitName is a unit in OpenMetrics' words, with the ending that it gives a name.
func unitName(u string) (name, ending string) {
	switch u {
	case unit.Seconds:
		return "seconds", "_seconds"
	case unit.Bytes:
		return "bytes", "_bytes"
	case unit.PerSecond:
		return "per_second", "_per_second"
	case unit.BytesPerSecond:
		return "bytes_per_second", "_bytes_per_second"
	default:
		return "", ""
	}
}

// row adds the values of a cell, and its effect.
func (f *families) row(d *report.Document, m *report.Metric, c *report.Condition, r *report.Row) {
	experiment, host := origin(d, r.Group)
	pairs := []string{
		"experiment", experiment, "host", host, "metric", m.Name, "condition", c.Condition, "cell", r.Cell,
	}
	if r.Group != "" {
		pairs = append(pairs, "group", r.Group)
	}
	labels := labelled(pairs...)
	u, ending := unitName(m.Unit)
	f.named("tare_value", ending, u, "Median of the values of a cell.").add(labels, r.Median)
	f.named("tare_value_low", ending, u, "Lower end of the 95 % interval of the median.").add(labels, r.Low)
	f.named("tare_value_high", ending, u, "Upper end of the 95 % interval of the median.").add(labels, r.High)
	e := r.Effect
	if e == nil {
		return
	}
	kind, what := "ratio", "Ratio to the baseline."
	if e.Scale == bench.Difference {
		kind, what = "difference", "Difference from the baseline, in the metric's unit."
	}
	f.of("tare_effect_"+kind, "", what).add(labels, e.Estimate)
	f.of("tare_effect_"+kind+"_low", "", what+" Lower end of the 95 % interval.").add(labels, e.Low)
	f.of("tare_effect_"+kind+"_high", "", what+" Upper end of the 95 % interval.").add(labels, e.High)
	one := 1.0
	f.of("tare_verdict", "", "1 for the verdict on a cell.").add(labelled(append(pairs, "verdict", e.Verdict)...), &one)
}

// origin is the experiment and the host of a group of runs, or of the only run; empty where the runs of a
// group differ.
func origin(d *report.Document, group string) (experiment, host string) {
	found := false
	for i := range d.Runs {
		r := &d.Runs[i]
		switch {
		case d.GroupOf(r.ID) != group:
			continue
		case !found:
			experiment, host, found = r.Experiment, r.Host.Hostname, true
		}
		if r.Experiment != experiment {
			experiment = ""
		}
		if r.Host.Hostname != host {
			host = ""
		}
	}
	return experiment, host
}

// named is a family whose name ends in its unit.
func (f *families) named(name, ending, u, help string) *family { return f.of(name+ending, u, help) }

// runs adds what is known of the runs as wholes.
func (f *families) runs(d *report.Document) {
	for i := range d.Runs {
		r := &d.Runs[i]
		one, ended := 1.0, float64(r.Began.Unix())+r.Wall
		f.of("tare_run_info", "", "What a run was.").add(labelled(
			"run", r.ID, "experiment", r.Experiment, "host", r.Host.Hostname, "kernel", r.Host.Kernel, "tare", r.Tool,
			"stopped", r.Stopped), &one)
		of := labelled("experiment", r.Experiment, "host", r.Host.Hostname)
		if i > 0 {
			continue // of several runs of one host, series would be there twice
		}
		f.of("tare_run_end_timestamp_seconds", "seconds", "When the first run began, plus the time that it measured.").add(of, &ended)
		for _, t := range []struct {
			outcome string
			n       int
		}{
			{"ok", r.Trials.OK},
			{"failed", r.Trials.Failed},
			{"timed_out", r.Trials.TimedOut},
			{"canceled", r.Trials.Canceled},
			{"skipped", r.Trials.Skipped},
			{"unsupported", r.Trials.Unsupported},
		} {
			n := float64(t.n)
			f.of("tare_trials", "", "Trials by outcome.").add(
				labelled("experiment", r.Experiment, "host", r.Host.Hostname, "outcome", t.outcome), &n)
		}
	}
}

// labelled writes labels from keys and values.
func labelled(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		value := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(plain.Line(pairs[i+1]))
		b.WriteString(pairs[i] + `="` + value + `"`)
	}
	return "{" + b.String() + "}"
}
