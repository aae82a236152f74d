package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/report"
)

// formatOptions say how a report is written.
type formatOptions struct {
	name string // empty = text, or JSON where --json asks for it
	all  bool   // that is known
	page string // file for a page as well; empty = none
	dir  string // directory for reports and a log as well; empty = none
}

// formatNames are the formats of reports.
func formatNames() (all []string) {
	for _, f := range app.Formats() {
		all = append(all, f.Name)
	}
	return all
}

func (o *formatOptions) addFlags(cmd *cobra.Command) {
	all := formatNames()
	cmd.Flags().StringVar(&o.name, "format", "",
		fmt.Sprintf("`name` of the report's format: %s (default %s)", sentenceList(all), all[0]))
	cmd.Flags().BoolVar(&o.all, "all", false, "show all metrics, intervals, percentiles and warnings")
	cmd.Flags().StringVar(&o.page, "html", "", "also write the report to `file`, as a page for a browser")
	completeFlag(cmd, "format", completeFixed(all...))
}

// checkFormat refuses formats that there are not, and two at once. The format json is the same as --json.
func (a *invocation) checkFormat(o formatOptions) error {
	all := formatNames()
	if o.name != "" && !slices.Contains(all, o.name) {
		hint := "the formats are " + sentenceList(all)
		if near, ok := experiment.Nearest(o.name, all); ok {
			hint = fmt.Sprintf("did you mean %s? %s", near, hint)
		}
		return &usageError{fmt.Errorf("invalid value %q for --format", o.name), hint}
	}
	asJSON := o.name == "json"
	if a.global.JSON && o.name != "" && !asJSON {
		return &usageError{fmt.Errorf("--format %s and --json are two formats", o.name), "choose one of them"}
	}
	a.global.JSON = a.global.JSON || asJSON
	err := checkOutputDir(o.dir)
	if err == nil && o.page != "" {
		err = checkNewFile("--html", o.page)
	}
	return err
}

// format is the one that was asked for.
func (a *invocation) format(o formatOptions) app.Format {
	name := o.name
	if a.global.JSON {
		name = "json"
	}
	all := app.Formats()
	return all[max(slices.IndexFunc(all, func(f app.Format) bool { return f.Name == name }), 0)]
}

// report analyses a stored run and writes what it says to stdout.
// Commands in it name runs by short, nil = by the whole ID.
func (a *invocation) report(r *bench.Run, o formatOptions, short report.Short, trailer []string) error {
	d, err := a.document(r, short)
	if err != nil {
		return err
	}
	d.Trailer = trailer
	if n := damagedTrials(r); n > 0 && a.format(o).Silent {
		a.notice("run %s: damaged trials, counted as failed: %d; 'tare check' lists them", r.Header.ID, n)
	}
	return a.render(d, o)
}

// document is what a stored run says, with every single value.
func (a *invocation) document(r *bench.Run, short report.Short) (*report.Document, error) {
	return a.documentWithin(r, short, 0)
}

// documentWithin takes the smallest difference that matters, as a ratio; 0 = the plan's.
func (a *invocation) documentWithin(r *bench.Run, short report.Short, smallest float64) (*report.Document, error) {
	d, err := a.analysed(r, short, smallest)
	if err == nil {
		plan := &r.Header.Plan
		d.AddTimelines(report.NewTimelines(plan, timeline.Analyze(r, ""), report.BaselinePairs(plan)))
	}
	return d, err
}

// analysed is a document without timelines.
func (a *invocation) analysed(r *bench.Run, short report.Short, smallest float64) (*report.Document, error) {
	result, err := analysis.Analyze(r, analysis.Options{
		Notes: app.NotesFor(r.Header.Plan.Workload), Running: r.End == nil && a.underWay(&r.Header), Singles: true,
		Smallest: smallest,
	})
	if err != nil {
		return nil, err
	}
	return report.New(result, short), nil
}

// shortIn gives the short forms of the runs of a store.
func shortIn(ctx context.Context, s *app.Shortener) report.Short {
	return func(id string) string { return s.Short(ctx, id) }
}

// damagedTrials counts the trials whose content the store has lost.
func damagedTrials(r *bench.Run) (n int) {
	for i := range r.Samples {
		if slices.Contains(r.Samples[i].Notes, bench.NoteDamaged) {
			n++
		}
	}
	return n
}

func (a *invocation) render(d *report.Document, o formatOptions) error {
	color, err := a.color()
	if err != nil {
		return err
	}
	style := app.Style{Color: color, Width: a.width(), All: o.all}
	err = a.format(o).Write(a.stdout, d, style)
	if o.page != "" {
		err = errors.Join(err, writeNewFile("--html", o.page, func(w io.Writer) error { return app.WritePage(w, d) }))
	}
	return errors.Join(err, writeReports(o.dir, d))
}

// storedHint says what a run was saved as. What can be done with it, the report says.
func storedHint(r *bench.Run, short report.Short) []string {
	as := short(r.Header.ID)
	if name := r.Header.Name; name != "" {
		as = name + ", " + as
	}
	if r.End == nil {
		return []string{"saved as " + as + ", incomplete"}
	}
	return []string{"saved as " + as}
}

// sentenceList joins a list for a sentence: a, b and c.
func sentenceList(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return strings.Join(words, "")
}
