package app

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/report/chrometrace"
	"github.com/tare-bench/tare/internal/report/figure"
	"github.com/tare-bench/tare/internal/store/record"
)

// Whatever a stored run has for texts, nothing that is written of it can move the cursor of a terminal: in no
// format, form of another program, export, plot or figure.
func FuzzWriters(f *testing.F) {
	for _, s := range []string{
		"docker", "a\x1b[31m\x1b]0;title\x07b", "\u202egnp\u0085\u2028|\r\n\t`", "\xff\x00漢字 é", "-", "{=,}\"\\", " ",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		run := analysistest.Foreign(s)
		if record.ValidateHeader(&run.Header) != nil {
			t.Skip()
		}
		for _, d := range foreignDocuments(t, run, s) {
			writeDocument(t, d)
		}
		for _, form := range Forms() {
			checkPlain(t, form.Name, func(w io.Writer) error { return form.Write(w, run) })
		}
		timelines := analysistest.ForeignTimelines(s)
		for _, export := range Exports() {
			checkPlain(t, export.Name, func(w io.Writer) error {
				if export.Name == "trace" { // whose run has no trace to find timelines in
					return chrometrace.Write(w, &run.Header.Plan, timelines)
				}
				return export.Write(w, record.Events(run))
			})
		}
	})
}

// foreignDocuments are the reports of a run with foreign timelines, and of a comparison of two groups that are
// called s as well.
func foreignDocuments(t *testing.T, run *bench.Run, s string) []*report.Document {
	t.Helper()
	r, err := analysis.Analyze(run, analysis.Options{Singles: true})
	if err != nil {
		t.Fatal(err)
	}
	one := report.New(r, nil)
	one.AddTimelines(report.NewTimelines(&run.Header.Plan, analysistest.ForeignTimelines(s), nil))
	other := analysistest.Foreign(s)
	other.Header.ID += "b"
	group := func(h *bench.Header) string { return s + strings.TrimPrefix(h.ID, run.Header.ID) }
	c, err := analysis.Compare([]*bench.Run{run, other}, analysis.CompareOptions{Group: group})
	if err != nil {
		t.Fatal(err)
	}
	return []*report.Document{one, report.NewComparison(c, nil)}
}

// writeDocument writes a report in every way.
func writeDocument(t *testing.T, d *report.Document) {
	t.Helper()
	for _, format := range Formats() {
		checkPlain(t, format.Name, func(w io.Writer) error { return format.Write(w, d, Style{Width: 40, All: true}) })
	}
	checkPlain(t, "screen", func(w io.Writer) error { return writeText(w, d, Style{}) })
	checkPlain(t, "findings", func(w io.Writer) error { return WriteFindings(w, d, Style{}) })
	checkPlain(t, "plot", func(w io.Writer) error { return WritePlot(w, d, 80) })
	for _, one := range figure.All(d) {
		checkPlain(t, "figure "+one.Name, func(w io.Writer) error {
			_, err := io.WriteString(w, one.SVG())
			return err
		})
	}
	if d.Timelines != nil {
		checkPlain(t, "timelines", func(w io.Writer) error { return WriteTimelines(w, d, Style{}) })
	}
}

// checkPlain wants UTF-8, in lines, and no character that does anything but show itself.
func checkPlain(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !utf8.Valid(b.Bytes()) {
		t.Errorf("%s is not UTF-8", name)
	}
	for _, c := range b.String() {
		allowed := c == '\n' || c == '\r' && name == "csv"
		if unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !allowed {
			t.Fatalf("%s has the character %U", name, c)
		}
	}
}
