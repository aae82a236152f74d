package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
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
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/text/plain"
)

// A reader checks what a format says about a document, as those read it who it is for.
type reader struct {
	name  string
	write func(io.Writer, *report.Document) error
	read  func(t *testing.T, text []byte, d *report.Document)
	names *regexp.Regexp // of families, labels and fields, but not those that a run gives
}

func readers() []reader {
	fields := regexp.MustCompile(`(?m)^ +"([a-z_]+)": [^{]`)
	return []reader{
		{"openmetrics", openmetrics.Write, readOpenMetrics, regexp.MustCompile(`(?m)^# TYPE (\S+)|[{,]([a-z_]+)="`)},
		{"otlp", otlp.Write, readOTLP, regexp.MustCompile(`"name":"(tare\.[a-z_]+\.)|"key":"([a-z._]+)"`)},
		{"hyperfine", hyperfine.Write, readHyperfine, fields},
		{"bencher", bencher.Write, readBencher, fields},
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
		if r.name == "hyperfine" && len(timedRows(d)) == 0 {
			return
		}
		t.Fatal(err)
	}
	if !utf8.Valid(b.Bytes()) {
		t.Fatal("not UTF-8")
	}
	r.read(t, b.Bytes(), d)
}

// TestExportsAreDocumented checks that docs/exports.md names everything that these formats have.
func TestExportsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/exports.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, s := range states() {
		d := s.document(t)
		for _, r := range readers() {
			var b bytes.Buffer
			if err := r.write(&b, d); err != nil && len(timedRows(d)) > 0 {
				t.Fatal(err)
			}
			for _, found := range r.names.FindAllStringSubmatch(b.String(), -1) {
				name := strings.Join(found[1:], "")
				if strings.HasSuffix(name, ".") {
					name += "METRIC"
				}
				documented[name] = bytes.Contains(page, []byte("`"+name+"`"))
			}
		}
	}
	for name, is := range documented {
		if !is {
			t.Errorf("docs/exports.md lacks %s", name)
		}
	}
	if len(documented) < 60 {
		t.Errorf("only %d names were looked for", len(documented))
	}
}

// FuzzReaders does the same with foreign text for every name.
func FuzzReaders(f *testing.F) {
	for _, s := range []string{"docker", attack, `"} 1` + "\n# EOF", `\`, "a\x00b", "{=,}", "\u2028", "é\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		run := analysistest.Foreign(s)
		if record.ValidateHeader(&run.Header) != nil {
			t.Skip()
		}
		result, err := analysis.Analyze(run, analysis.Options{Singles: true})
		if err != nil {
			t.Fatal(err)
		}
		d := report.New(result, nil)
		for _, r := range readers() {
			checkReader(t, r, d)
		}
	})
}

// timedRows are the rows of single times, in order.
func timedRows(d *report.Document) (rows []report.Row) {
	for _, m := range d.Metrics {
		for _, c := range m.Conditions {
			for _, r := range c.Rows {
				if m.Unit == "s" && len(r.Values) > 0 && r.N > 0 {
					rows = append(rows, r)
				}
			}
		}
	}
	return rows
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
	got := numbers{}
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
		kind := strings.TrimPrefix(name, "tare_")
		for _, ending := range []string{"_per_second", "_seconds", "_bytes"} {
			kind = strings.TrimSuffix(kind, ending)
		}
		kind = strings.NewReplacer("effect_ratio", "effect", "effect_difference", "effect").Replace(kind)
		for _, m := range f.GetMetric() {
			got[kind] = append(got[kind], m.GetGauge().GetValue())
		}
	}
	got.check(t, numbersOf(d, func(string) int { return 1 }), append(rowKinds(), "verdict")...)
}

// hostsOf lists the hosts of a group of runs, as it is written; none = they differ, and no label names one.
func hostsOf(d *report.Document, group string) []string {
	hosts := []string{}
	for _, r := range d.Runs {
		if plain.Line(d.GroupOf(r.ID)) == group {
			hosts = append(hosts, plain.Line(r.Host.Hostname))
		}
	}
	if slices.Sort(hosts); len(slices.Compact(hosts)) > 1 {
		return []string{""}
	}
	return hosts
}

// numbers are those of a document's rows, by kind.
type numbers map[string][]float64

// rowKinds are those of numbers with an interval. Verdicts are 1 each.
func rowKinds() []string {
	return []string{"value", "value_low", "value_high", "effect", "effect_low", "effect_high"}
}

// numbersOf collects them: those of a row as often as times says of its group.
func numbersOf(d *report.Document, times func(group string) int) numbers {
	n, one := numbers{}, 1.0
	add := func(times int, kinds []string, all ...*float64) {
		for i, v := range all {
			if v != nil {
				n[kinds[i]] = append(n[kinds[i]], slices.Repeat([]float64{*v}, times)...)
			}
		}
	}
	for _, m := range d.Metrics {
		for _, c := range m.Conditions {
			for _, r := range c.Rows {
				add(times(r.Group), rowKinds(), r.Median, r.Low, r.High)
				if e := r.Effect; e != nil {
					add(times(r.Group), append(rowKinds()[3:], "verdict"), e.Estimate, e.Low, e.High, &one)
				}
			}
		}
	}
	return n
}

// check wants the same numbers of some kinds, in any order.
func (n numbers) check(t *testing.T, want numbers, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		slices.Sort(n[kind])
		slices.Sort(want[kind])
		if !slices.Equal(n[kind], want[kind]) {
			t.Errorf("%s: %d numbers are read, want %d, or they are others", kind, len(n[kind]), len(want[kind]))
		}
	}
}

// readOTLP reads with the protocol's own messages, which refuse fields that they do not have.
func readOTLP(t *testing.T, text []byte, d *report.Document) {
	t.Helper()
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	if len(lines) != len(d.Runs) {
		t.Fatalf("%d lines for %d runs", len(lines), len(d.Runs))
	}
	got, runs := numbers{}, map[string]int{} // of each group
	for i, line := range lines {
		runs[d.GroupOf(d.Runs[i].ID)]++
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
			kind := strings.Split(one.GetName(), ".")[1]
			for _, p := range one.GetGauge().GetDataPoints() {
				if p.GetTimeUnixNano() == 0 || math.IsNaN(p.GetAsDouble()) {
					t.Errorf("%s: %v", one.GetName(), p)
				}
				got[kind] = append(got[kind], p.GetAsDouble())
			}
		}
	}
	got.check(t, numbersOf(d, func(group string) int { return runs[group] }), rowKinds()...)
}

// readHyperfine reads what hyperfine's scripts read, and nothing that its format does not have.
func readHyperfine(t *testing.T, text []byte, d *report.Document) {
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
	rows := timedRows(d)
	if len(rows) != len(all.Results) {
		t.Fatalf("%d results, want %d", len(all.Results), len(rows))
	}
	for i, r := range all.Results {
		if r.Command == nil || r.Mean == nil || r.Median == nil || r.User == nil || r.System == nil || r.Min == nil || r.Max == nil {
			t.Fatalf("a field is missing: %+v", r)
		}
		if len(r.Times) == 0 || len(r.ExitCodes) != len(r.Times) || (r.StdDev == nil) != (len(r.Times) == 1) {
			t.Errorf("%d times, %d exit codes, stddev %v", len(r.Times), len(r.ExitCodes), r.StdDev)
		}
		if *r.Min != slices.Min(r.Times) || *r.Max != slices.Max(r.Times) || *r.Mean < *r.Min*(1-1e-9) || *r.Mean > *r.Max*(1+1e-9) {
			t.Errorf("min %v, mean %v and max %v of %v", *r.Min, *r.Mean, *r.Max, r.Times)
		}
		values := slices.DeleteFunc(slices.Clone([]float64(rows[i].Values)), math.IsNaN)
		if *r.Command != plain.Line(rows[i].Cell) || !slices.Equal(r.Times, values) || *r.Median != *rows[i].Median {
			t.Errorf("%s has the median %v of %v, want those of %s", *r.Command, *r.Median, r.Times, rows[i].Cell)
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
	got := numbers{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for measureName, m := range all[name] {
			for i, v := range []*float64{m.Value, m.Lower, m.Upper} {
				if v != nil {
					got[rowKinds()[i]] = append(got[rowKinds()[i]], *v)
				}
			}
			switch {
			case m.Value == nil:
				t.Errorf("%s %s has no value", name, measureName)
			case m.Lower != nil && *m.Lower > *m.Value, m.Upper != nil && *m.Upper < *m.Value:
				t.Errorf("%s %s is not between its bounds", name, measureName)
			}
		}
	}
	got.check(t, numbersOf(d, func(string) int { return 1 }), rowKinds()[:3]...)
}
