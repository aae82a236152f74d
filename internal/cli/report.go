package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/report/csv"
	"github.com/tare-bench/tare/internal/report/gobench"
	"github.com/tare-bench/tare/internal/report/json"
	"github.com/tare-bench/tare/internal/report/markdown"
	"github.com/tare-bench/tare/internal/report/text"
)

// formatOptions say how a report is written.
type formatOptions struct {
	csv, markdown bool
	details       bool // of which there are many
}

func (o *formatOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.csv, "csv", false, "print the report as CSV, one row for each cell and metric")
	f.BoolVar(&o.markdown, "markdown", false, "print the report as Markdown")
	f.BoolVar(&o.details, "details", false, "show every detail with its interval and verdict, however many there are")
}

// check refuses two formats at once.
func (o *formatOptions) check(asJSON bool) error {
	n := 0
	for _, on := range []bool{asJSON, o.csv, o.markdown} {
		if on {
			n++
		}
	}
	if n > 1 {
		return &usageError{errors.New("more than one format"), "choose one of --json, --csv and --markdown"}
	}
	return nil
}

// report analyses a stored run and writes what it says to stdout.
func (a *invocation) report(r *bench.Run, o formatOptions, trailer []string) error {
	result, err := analysis.Analyze(r, analysis.Options{})
	if err != nil {
		return err
	}
	d := report.New(result)
	d.Trailer = trailer
	if n := damagedTrials(r); n > 0 && o.csv { // which has no place for warnings
		a.notice("run %s: damaged trials that count as failed: %d; 'tare check' names them", r.Header.ID, n)
	}
	return a.render(d, o)
}

// damagedTrials counts the trials of which the store has lost what they were.
func damagedTrials(r *bench.Run) (n int) {
	for i := range r.Samples {
		if slices.Contains(r.Samples[i].Notes, bench.NoteDamaged) {
			n++
		}
	}
	return n
}

func (a *invocation) render(d *report.Document, o formatOptions) error {
	switch {
	case a.global.JSON:
		return json.Write(a.stdout, d)
	case o.csv:
		return csv.Write(a.stdout, d)
	case o.markdown:
		return markdown.Write(a.stdout, d)
	}
	color, err := a.color()
	if err != nil {
		return err
	}
	return text.Write(a.stdout, d, text.Options{Color: color, Width: a.width(), Details: o.details})
}

// trailer says where a run was saved and what can be done with it. That it can
// be resumed, if it can, is said with what ended it.
func trailer(r *bench.Run) []string {
	id := r.Header.ID
	if r.End == nil {
		return []string{"saved as " + id + ", incomplete"}
	}
	return []string{fmt.Sprintf("saved as %s · tare show %s · tare export %s", id, id, id)}
}

// writeGobench writes a run for benchstat.
func writeGobench(w io.Writer, r *bench.Run) error { return gobench.Write(w, r) }
