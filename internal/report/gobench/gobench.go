// Package gobench writes a run in the Go benchmark format, one line for each
// trial, so that benchstat and its like can read it.
package gobench

import (
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// Write writes the successful trials of a run that count, with their primary
// and detail metrics. The control is a cell like any other. It goes through the
// samples twice, because units come before values, and holds one at a time.
func Write(w io.Writer, h *bench.Header, samples iter.Seq2[*bench.Sample, error]) error {
	out := benchfmt.NewWriter(w)
	units, err := measuredUnits(h, samples)
	if err != nil {
		return err
	}
	for i, u := range units {
		better := h.Metrics[i].Better
		if u == "" || better == bench.Neither {
			continue
		}
		meta := &benchfmt.UnitMetadata{
			UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: u, Key: "better"}, OrigUnit: u, Value: string(better),
		}
		if err := out.Write(meta); err != nil {
			return err
		}
	}
	config := configure(h)
	for s, err := range samples {
		if err != nil {
			return err
		}
		r := result(h, s, units)
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

// measuredUnits is parallel to the metrics of a run: the unit of each that is written, which
// are the primary and detail metrics of which any trial has a value.
func measuredUnits(h *bench.Header, samples iter.Seq2[*bench.Sample, error]) ([]string, error) {
	units := make([]string, len(h.Metrics))
	for s, err := range samples {
		if err != nil {
			return nil, err
		}
		for i, m := range h.Metrics {
			if _, ok := s.Value(i); ok && (m.Role == bench.Primary || m.Role == bench.Detail) && units[i] == "" {
				units[i] = unitOf(m)
			}
		}
	}
	return units, nil
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
