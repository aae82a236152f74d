package app

import (
	"io"
	"iter"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/report/csv"
	"github.com/tare-bench/tare/internal/report/gobench"
	"github.com/tare-bench/tare/internal/report/json"
	"github.com/tare-bench/tare/internal/report/markdown"
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
	Doc    string // what it is, for people
	Silent bool   // it has no place for warnings
	Write  func(w io.Writer, d *report.Document, s Style) error
}

// Formats lists every format of reports. The first is for people at a terminal.
func Formats() []Format {
	return []Format{
		{"text", "print the report as text", false, writeText},
		{"json", "print results and errors as JSON", false, withoutStyle(json.Write)},
		{"csv", "print the report as CSV, one row for each cell and metric", true, withoutStyle(csv.Write)},
		{"markdown", "print the report as Markdown", false, withoutStyle(markdown.Write)},
	}
}

func writeText(w io.Writer, d *report.Document, s Style) error {
	return text.Write(w, d, text.Options{Color: s.Color, Width: s.Width, All: s.All})
}

// WriteFindings writes the tables of a report's first screen, and no more, for a terminal.
func WriteFindings(w io.Writer, d *report.Document, s Style) error {
	return text.WriteFindings(w, d, text.Options{Color: s.Color, Width: s.Width})
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
	Name  string
	Doc   string // what it is, for people, after its name
	Write func(w io.Writer, events iter.Seq2[record.Event, error]) error
}

// Exports lists every way to write a run. The first is the one that Import reads.
func Exports() []Export {
	return []Export{
		{"record", "is JSON lines, which can be imported again (see docs/format.md)", record.WriteEvents},
		{"json", "is the same as one JSON document", record.WriteDocument},
		{"gobench", "is the input of benchstat", collected(gobench.Write)},
	}
}

// collected gives all of a run to what needs all of it.
func collected(write func(io.Writer, *bench.Run) error) func(io.Writer, iter.Seq2[record.Event, error]) error {
	return func(w io.Writer, events iter.Seq2[record.Event, error]) error {
		run, err := record.Collect(events)
		if err != nil {
			return err
		}
		return write(w, run)
	}
}
