package app

import (
	"io"
	"iter"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/report/bencher"
	"github.com/tare-bench/tare/internal/report/chrometrace"
	"github.com/tare-bench/tare/internal/report/csv"
	"github.com/tare-bench/tare/internal/report/figure"
	"github.com/tare-bench/tare/internal/report/gobench"
	"github.com/tare-bench/tare/internal/report/html"
	"github.com/tare-bench/tare/internal/report/hyperfine"
	"github.com/tare-bench/tare/internal/report/json"
	"github.com/tare-bench/tare/internal/report/markdown"
	"github.com/tare-bench/tare/internal/report/openmetrics"
	"github.com/tare-bench/tare/internal/report/otlp"
	"github.com/tare-bench/tare/internal/report/pgbench"
	"github.com/tare-bench/tare/internal/report/text"
	"github.com/tare-bench/tare/internal/store/record"
)

// A Style says how a report looks where a format leaves that open.
type Style struct {
	Color bool // ANSI colours
	Width int  // columns; 0 = 80
	All   bool // everything that is known, not only what people read first
}

// A Format is a way to write a report.
type Format struct {
	Name   string
	Silent bool // it has no place for warnings
	Write  func(w io.Writer, d *report.Document, s Style) error
}

// Formats lists every format of reports. The first is for people at a terminal.
func Formats() []Format {
	return []Format{
		{"text", false, writeText},
		{"json", false, withoutStyle(json.Write)},
		{"csv", true, withoutStyle(csv.Write)},
		{"markdown", false, withoutStyle(markdown.Write)},
		{"html", false, withoutStyle(html.Write)},
		{"openmetrics", true, withoutStyle(openmetrics.Write)},
		{"otlp", true, withoutStyle(otlp.Write)},
		{"hyperfine", true, withoutStyle(hyperfine.Write)},
		{"bencher", true, withoutStyle(bencher.Write)},
	}
}

// WritePage writes a report as a page for a browser, with pictures.
func WritePage(w io.Writer, d *report.Document) error { return html.Write(w, d) }

// WriteFigure writes one figure of a report as SVG; Figures lists their names.
func WriteFigure(w io.Writer, d *report.Document, name string) error {
	return html.WriteFigure(w, d, name)
}

// Figures lists the names of a report's figures, in the order of the page.
func Figures(d *report.Document) []string { return html.Figures(d) }

// WritePlot draws a report's values and changes in characters, in so many columns.
func WritePlot(w io.Writer, d *report.Document, columns int) error {
	return figure.Write(w, d, columns)
}

func writeText(w io.Writer, d *report.Document, s Style) error {
	return text.Write(w, d, text.Options{Color: s.Color, Width: s.Width, All: s.All})
}

// WriteFindings writes the tables of a report's first screen, and no more, for a terminal.
func WriteFindings(w io.Writer, d *report.Document, s Style) error {
	return text.WriteFindings(w, d, text.Options{Color: s.Color, Width: s.Width})
}

// WriteTimelines writes where the time of a run's starts goes, for a terminal.
func WriteTimelines(w io.Writer, d *report.Document, s Style) error {
	return text.WriteTimelines(w, d, text.Options{Color: s.Color, Width: s.Width, All: s.All})
}

// withoutStyle is a format that looks the same everywhere.
func withoutStyle(write func(io.Writer, *report.Document) error) func(io.Writer, *report.Document, Style) error {
	return func(w io.Writer, d *report.Document, _ Style) error { return write(w, d) }
}

// A Form is that of another program, in which the runs of a workload can be shown.
type Form struct {
	Name     string // of the program
	Workload string
	Doc      string // what it is, for people, after the program's name
	Write    func(w io.Writer, r *bench.Run) error
}

// Forms lists the forms of other programs.
func Forms() []Form {
	return []Form{{"pgbench", "postgres", "its summary for each cell, with medians", pgbench.Write}}
}

// An Export is a way to write a stored run, every value of it.
type Export struct {
	Name string
	Doc  string // what it is, for people, after its name
	// Write may read the events more than once.
	Write func(w io.Writer, events iter.Seq2[record.Event, error]) error
}

// Exports lists every way to write a run. The first is the one that Import reads.
func Exports() []Export {
	return []Export{
		{"record", "is JSON lines, which can be imported again (see docs/format.md)", record.WriteEvents},
		{"gobench", "is the input of benchstat", writeGobench},
		{
			"trace", "is for ui.perfetto.dev: the timeline of one start of each cell, of a run with --timeline",
			writeTrace,
		},
	}
}

// writeGobench writes a run from its pieces.
func writeGobench(w io.Writer, events iter.Seq2[record.Event, error]) error {
	h, err := headerOf(events)
	if err != nil {
		return err
	}
	return gobench.Write(w, h, samplesOf(events))
}

// writeTrace writes the timelines of a run.
func writeTrace(w io.Writer, events iter.Seq2[record.Event, error]) error {
	run, err := record.CollectTraced(events)
	if err != nil {
		return err
	}
	r := timeline.Analyze(run, "")
	if err := checkTimeline(run, r); err != nil {
		return err
	}
	return chrometrace.Write(w, &run.Header.Plan, r)
}

// samplesOf yields the samples among the pieces of a run.
func samplesOf(events iter.Seq2[record.Event, error]) iter.Seq2[*bench.Sample, error] {
	return func(yield func(*bench.Sample, error) bool) {
		for e, err := range events {
			if (err != nil || e.Sample != nil) && !yield(e.Sample, err) {
				return
			}
		}
	}
}
