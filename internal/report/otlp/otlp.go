// Package otlp renders a report as metrics of OpenTelemetry: JSON lines as the file exporter
// writes them, which a collector reads with its receiver otlpjsonfile. There is no convention for
// benchmarks, so values are tare.value and what cells differ by is tare.effect, each with the ends of
// its interval: docs/exports.md has all names.
package otlp

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// The messages of the protocol, as far as they are used; their names are its own.
type (
	request struct {
		ResourceMetrics []resourceMetrics `json:"resourceMetrics"`
	}
	resourceMetrics struct {
		Resource     resource       `json:"resource"`
		ScopeMetrics []scopeMetrics `json:"scopeMetrics"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeMetrics struct {
		Scope   scope    `json:"scope"`
		Metrics []metric `json:"metrics"`
	}
	scope struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	metric struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Unit        string `json:"unit"`
		Gauge       gauge  `json:"gauge"`
	}
	gauge struct {
		DataPoints []dataPoint `json:"dataPoints"`
	}
	dataPoint struct {
		Attributes []attribute `json:"attributes"`
		Time       string      `json:"timeUnixNano"`
		Value      float64     `json:"asDouble"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String string `json:"stringValue"`
	}
)

// Write renders a report: one line for each run of it. Of several runs each line has the rows of its
// own group.
func Write(w io.Writer, d *report.Document) error {
	for i := range d.Runs {
		r := &d.Runs[i]
		line, err := json.Marshal(request{[]resourceMetrics{{
			Resource: resource{attributes(
				"service.name", "tare", "service.version", r.Tool, "host.name", r.Host.Hostname, "host.arch", r.Host.Arch,
				"os.type", "linux", "os.description", r.Host.OS, "tare.run", r.ID, "tare.experiment", r.Experiment)},
			ScopeMetrics: []scopeMetrics{{scope{"tare", plain.Line(r.Tool)}, metrics(d, r, d.GroupOf(r.ID))}},
		}}})
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// metrics are the values and effects of one group, at the time when the run ended.
func metrics(d *report.Document, r *report.Run, group string) (all []metric) {
	at := strconv.FormatInt(r.Began.Add(time.Duration(r.Wall*float64(time.Second))).UnixNano(), 10)
	for i := range d.Metrics {
		for _, x := range metricsOf(&d.Metrics[i], at, group) {
			if len(x.Gauge.DataPoints) > 0 {
				all = append(all, x)
			}
		}
	}
	return all
}

// metricsOf are those of one metric: the medians and the ends of their intervals, then the same of effects.
func metricsOf(m *report.Metric, at, group string) []metric {
	var all []metric
	for _, kind := range []string{"value", "value_low", "value_high", "effect", "effect_low", "effect_high"} {
		x := metric{Name: "tare." + kind + "." + plain.Line(m.Name), Description: plain.Line(m.Doc), Unit: unitOf(m.Unit)}
		if m.Scale != bench.Difference && strings.HasPrefix(kind, "effect") {
			x.Unit = "1"
		}
		all = append(all, x)
	}
	for _, c := range m.Conditions {
		for _, row := range c.Rows {
			if row.Group != group {
				continue
			}
			of := []string{"cell", row.Cell, "condition", c.Condition}
			for i, v := range []*float64{row.Median, row.Low, row.High} {
				all[i].add(at, v, of...)
			}
			if e := row.Effect; e != nil {
				of = append(of, "baseline", c.Baseline, "verdict", e.Verdict)
				for i, v := range []*float64{e.Estimate, e.Low, e.High} {
					all[3+i].add(at, v, of...)
				}
			}
		}
	}
	return all
}

func (m *metric) add(at string, v *float64, pairs ...string) {
	if v != nil {
		m.Gauge.DataPoints = append(m.Gauge.DataPoints, dataPoint{attributes(pairs...), at, *v})
	}
}

// attributes are made of keys and values; empty ones are left out.
func attributes(pairs ...string) (all []attribute) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			all = append(all, attribute{pairs[i], value{plain.Line(pairs[i+1])}})
		}
	}
	return all
}

// unitOf is a unit as UCUM has it.
func unitOf(u string) string {
	switch u {
	case unit.Bytes:
		return "By"
	case unit.BytesPerSecond:
		return "By/s"
	default:
		return plain.Line(u)
	}
}
