package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/report/bencher"
	"github.com/tare-bench/tare/internal/report/hyperfine"
	"github.com/tare-bench/tare/internal/report/openmetrics"
	"github.com/tare-bench/tare/internal/report/otlp"
	"github.com/tare-bench/tare/internal/text/plain"
)

// A reader checks what a format says about a document, as those read it who it is for.
type reader struct {
	name  string
	write func(io.Writer, *report.Document) error
	read  func(t *testing.T, text []byte, d *report.Document)
}

func readers() []reader {
	return []reader{
		{"openmetrics", openmetrics.Write, readOpenMetrics},
		{"otlp", otlp.Write, readOTLP},
		{"hyperfine", hyperfine.Write, readHyperfine},
		{"bencher", bencher.Write, readBencher},
	}
}

// TestReaders has every state read back by the reader of each format for programs.
func TestReaders(t *testing.T) {
	for _, s := range states() {
		d := s.document(t)
		for _, r := range readers() {
			t.Run(s.name+"/"+r.name, func(t *testing.T) { checkReader(t, r, d) })
		}
	}
}

// checkReader writes a document and reads it. Only hyperfine's form may refuse one: without a time.
func checkReader(t *testing.T, r reader, d *report.Document) {
	t.Helper()
	var b bytes.Buffer
	if err := r.write(&b, d); err != nil {
		if r.name == "hyperfine" && !hasTimes(d) {
			return
		}
		t.Fatal(err)
	}
	if !utf8.Valid(b.Bytes()) {
		t.Fatal("not UTF-8")
	}
	r.read(t, b.Bytes(), d)
}

// FuzzReaders does the same with foreign text for every name.
func FuzzReaders(f *testing.F) {
	for _, s := range []string{"docker", attack, `"} 1` + "\n# EOF", `\`, "a\x00b", "{=,}", "\u2028", "é\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		run := analysistest.Run(analysistest.Shape{
			Seed: 5, Blocks: 7, Cells: []analysistest.Cell{{Name: "base"}, {Name: "x" + s}}, Metrics: analysistest.Lifecycle()[:3],
		})
		for i := range run.Header.Plan.Cells {
			run.Header.Plan.Cells[i].Condition = s
		}
		m := run.Header.Metrics
		m[0].Title, m[0].Doc, m[1].Name, m[1].Unit = s, s, "x"+s, s
		run.Header.Plan.Name, run.Header.Host.Hostname, run.Header.Host.Kernel, run.Header.Tool = s, s, s, s
		result, err := analysis.Analyze(run, analysis.Options{Singles: true})
		if err != nil {
			t.Skip()
		}
		d := report.New(result, nil)
		for _, r := range readers() {
			checkReader(t, r, d)
		}
	})
}

func hasTimes(d *report.Document) bool {
	return slices.ContainsFunc(d.Metrics, func(m report.Metric) bool {
		return m.Unit == "s" && slices.ContainsFunc(m.Conditions, func(c report.Condition) bool {
			return slices.ContainsFunc(c.Rows, func(r report.Row) bool { return len(r.Values) > 0 && r.N > 0 })
		})
	})
}

// readOpenMetrics reads with the parser of Prometheus' textfile collector, which wants gauges without times.
func readOpenMetrics(t *testing.T, text []byte, d *report.Document) {
	t.Helper()
	if !bytes.HasSuffix(text, []byte("\n# EOF\n")) {
		t.Error("the last line is not # EOF")
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	medians, verdicts := 0, 0
	for name, f := range families {
		if f.GetType() != dto.MetricType_GAUGE || f.GetHelp() == "" {
			t.Errorf("%s is a %s with the help %q", name, f.GetType(), f.GetHelp())
		}
		seen := map[string]bool{}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			key, err := json.Marshal(labels) // which sorts them
			if err != nil {
				t.Fatal(err)
			}
			if seen[string(key)] {
				t.Errorf("%s%s is there twice", name, key)
			}
			seen[string(key)] = true
			if hosts := hostsOf(d, labels["group"]); labels["cell"] != "" && !slices.Contains(hosts, labels["host"]) {
				t.Errorf("%s%s is of another host, want one of %q", name, key, hosts)
			}
			if m.TimestampMs != nil {
				t.Errorf("%s has a time", name)
			}
			if labels["run"] != "" && name != "tare_run_info" {
				t.Errorf("%s has the run's ID, so each run begins a new series", name)
			}
		}
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_per_second"), "_seconds"), "_bytes")
		switch base {
		case "tare_value":
			medians += len(f.GetMetric())
		case "tare_verdict":
			verdicts += len(f.GetMetric())
		}
	}
	if m, v := counted(d); m != medians || v != verdicts {
		t.Errorf("%d medians and %d verdicts are read, want %d and %d", medians, verdicts, m, v)
	}
}

// hostsOf lists the hosts of a group of runs; none = they differ, and no label names one.
func hostsOf(d *report.Document, group string) []string {
	hosts := []string{}
	for _, r := range d.Runs {
		if d.GroupOf(r.ID) == group {
			hosts = append(hosts, plain.Line(r.Host.Hostname))
		}
	}
	if slices.Sort(hosts); len(slices.Compact(hosts)) > 1 {
		return []string{""}
	}
	return hosts
}

// counted counts the medians and the effects of a document.
func counted(d *report.Document) (medians, effects int) {
	for _, m := range d.Metrics {
		for _, c := range m.Conditions {
			for _, r := range c.Rows {
				if r.Median != nil {
					medians++
				}
				if r.Effect != nil {
					effects++
				}
			}
		}
	}
	return medians, effects
}

// readOTLP reads with the protocol's own messages, which refuse fields that they do not have.
func readOTLP(t *testing.T, text []byte, d *report.Document) {
	t.Helper()
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if len(lines) != len(d.Runs) {
		t.Fatalf("%d lines for %d runs", len(lines), len(d.Runs))
	}
	for _, line := range lines {
		var data metrics.MetricsData
		if err := protojson.Unmarshal(line, &data); err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, one := range data.GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics() {
			if names[one.GetName()] {
				t.Errorf("%q is there twice", one.GetName())
			}
			names[one.GetName()] = true
			for _, p := range one.GetGauge().GetDataPoints() {
				if p.GetTimeUnixNano() == 0 || math.IsNaN(p.GetAsDouble()) {
					t.Errorf("%s: %v", one.GetName(), p)
				}
			}
		}
	}
}

// readHyperfine reads what hyperfine's scripts read, and nothing that its format does not have.
func readHyperfine(t *testing.T, text []byte, _ *report.Document) {
	t.Helper()
	type result struct {
		Command    *string           `json:"command"`
		Mean       *float64          `json:"mean"`
		StdDev     *float64          `json:"stddev"`
		Median     *float64          `json:"median"`
		User       *float64          `json:"user"`
		System     *float64          `json:"system"`
		Min        *float64          `json:"min"`
		Max        *float64          `json:"max"`
		Times      []float64         `json:"times"`
		ExitCodes  []*int            `json:"exit_codes"`
		Parameters map[string]string `json:"parameters"`
	}
	var all struct {
		Results []result `json:"results"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&all); err != nil {
		t.Fatal(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		t.Error("something follows the results")
	}
	for _, r := range all.Results {
		if r.Command == nil || r.Mean == nil || r.Median == nil || r.User == nil || r.System == nil || r.Min == nil || r.Max == nil {
			t.Fatalf("a field is missing: %+v", r)
		}
		if len(r.Times) == 0 || len(r.ExitCodes) != len(r.Times) || (r.StdDev == nil) != (len(r.Times) == 1) {
			t.Errorf("%d times, %d exit codes, stddev %v", len(r.Times), len(r.ExitCodes), r.StdDev)
		}
		if *r.Min != slices.Min(r.Times) || *r.Max != slices.Max(r.Times) || *r.Mean < *r.Min*(1-1e-9) || *r.Mean > *r.Max*(1+1e-9) {
			t.Errorf("min %v, mean %v and max %v of %v", *r.Min, *r.Mean, *r.Max, r.Times)
		}
		if r.Parameters["metric"] == "" {
			t.Error("it is of no metric")
		}
	}
}

// readBencher reads Bencher's metric format: by benchmark and measure, a value between its bounds.
func readBencher(t *testing.T, text []byte, d *report.Document) {
	t.Helper()
	type measure struct {
		Value *float64 `json:"value"`
		Lower *float64 `json:"lower_value"`
		Upper *float64 `json:"upper_value"`
	}
	var all map[string]map[string]measure
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&all); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for measureName, m := range all[name] {
			n++
			switch {
			case m.Value == nil:
				t.Errorf("%s %s has no value", name, measureName)
			case m.Lower != nil && *m.Lower > *m.Value, m.Upper != nil && *m.Upper < *m.Value:
				t.Errorf("%s %s is not between its bounds", name, measureName)
			}
		}
	}
	if medians, _ := counted(d); n != medians {
		t.Errorf("%d values, want %d", n, medians)
	}
}
