// Package gobench writes a run in the Go benchmark format, one line for each
// trial, so that benchstat and its like can read it.
package gobench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// Write writes the successful trials of a run that count, with their primary
// and detail metrics. The control is a cell like any other.
func Write(w io.Writer, run *bench.Run) error {
	out := benchfmt.NewWriter(w)
	config := configure(&run.Header)
	units := make([]string, len(run.Header.Metrics))
	for i, m := range run.Header.Metrics {
		if m.Role != bench.Primary && m.Role != bench.Detail || !measured(run, i) {
			continue
		}
		units[i] = unitOf(m)
		if m.Better == bench.Neither {
			continue
		}
		meta := &benchfmt.UnitMetadata{
			UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: units[i], Key: "better"},
			OrigUnit:        units[i], Value: string(m.Better),
		}
		if err := out.Write(meta); err != nil {
			return err
		}
	}
	for i := range run.Samples {
		r := result(&run.Header, &run.Samples[i], units)
		if len(r.Values) == 0 {
			continue
		}
		r.Config = config
		if err := out.Write(r); err != nil {
			return err
		}
	}
	return nil
}

// measured reports whether any trial has a value of a metric.
func measured(run *bench.Run, metric int) bool {
	return slices.ContainsFunc(run.Samples, func(s bench.Sample) bool {
		_, ok := s.Value(metric)
		return ok
	})
}

// result is one trial, without values if there are none to show.
func result(h *bench.Header, s *bench.Sample, units []string) *benchfmt.Result {
	r := &benchfmt.Result{Iters: 1}
	if s.Outcome != bench.OK || s.Trial.Warmup() || s.Trial.Cell < 0 || s.Trial.Cell >= len(h.Plan.Cells) {
		return r
	}
	for i, u := range units {
		if v, ok := s.Value(i); ok && u != "" && !math.IsInf(v, 0) {
			r.Values = append(r.Values, benchfmt.Value{Value: v, Unit: u})
		}
	}
	cell := &h.Plan.Cells[s.Trial.Cell]
	name := "Tare/workload=" + part(h.Plan.Workload) + "/cell=" + part(cell.Name)
	if cell.Condition != "" {
		name += "/condition=" + part(cell.Condition)
	}
	// Without a number of CPUs, one at the end of a cell's name would be taken for it.
	r.Name = benchfmt.Name(fmt.Sprintf("%s-%d", name, max(1, h.Host.CPUs)))
	return r
}

// configure says what the run was made with and on.
func configure(h *bench.Header) []benchfmt.Config {
	var out []benchfmt.Config
	set := func(key, value string) {
		// One line, and nothing that a terminal would obey.
		value = plain.Line(strings.Join(strings.Fields(value), " "))
		if value != "" {
			out = append(out, benchfmt.Config{Key: key, Value: []byte(value), File: true})
		}
	}
	set("goos", "linux")
	set("goarch", h.Host.Arch)
	set("cpu", h.Host.CPU)
	set("host", h.Host.Hostname)
	set("os", h.Host.OS)
	set("kernel", h.Host.Kernel)
	set("tare", h.Tool)
	set("run", h.ID)
	set("name", h.Name)
	set("experiment", h.Plan.Name)
	for i, e := range h.Engines {
		set(fmt.Sprintf("engine-%d", i), e.Name+" "+e.Version)
	}
	return out
}
