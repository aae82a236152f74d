package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// formatOptions say how a report is written.
type formatOptions struct {
	chosen map[string]*bool // by the format's name: those that have a flag of their own
	all    bool             // that is known
	page   string           // file for a page as well; empty = none
}

// formats are those that have a flag of their own. Text is the default, and --json is a
// flag of every command.
func formats() []app.Format {
	return slices.DeleteFunc(app.Formats(), func(f app.Format) bool { return f.Name == "text" || f.Name == "json" })
}

// formatFlags are their flags.
func formatFlags() (all []string) {
	for _, f := range formats() {
		all = append(all, "--"+f.Name)
	}
	return all
}

func (o *formatOptions) addFlags(f *pflag.FlagSet) {
	o.chosen = map[string]*bool{}
	for _, format := range formats() {
		o.chosen[format.Name] = f.Bool(format.Name, false, format.Doc)
	}
	f.BoolVar(&o.all, "all", false, "show all metrics, intervals, percentiles and warnings")
	f.StringVar(&o.page, "html", "", "also write the report to `file`, as a page for a browser")
}

// any reports whether one of these flags is set.
func (o *formatOptions) any() bool {
	return slices.ContainsFunc(formats(), func(f app.Format) bool { return *o.chosen[f.Name] })
}

// check refuses two formats at once.
func (o *formatOptions) check(asJSON bool) error {
	n := 0
	if asJSON {
		n++
	}
	for _, on := range o.chosen {
		if *on {
			n++
		}
	}
	if n > 1 {
		all := append([]string{"--json"}, formatFlags()...)
		return &usageError{errors.New("more than one format"), "choose one of " + sentenceList(all)}
	}
	if o.page == "" {
		return nil
	}
	return checkNewFile("--html", o.page)
}

// format is the one that was asked for.
func (o *formatOptions) format(asJSON bool) app.Format {
	all := app.Formats()
	i := slices.IndexFunc(all, func(f app.Format) bool {
		on := o.chosen[f.Name]
		return asJSON && f.Name == "json" || on != nil && *on
	})
	return all[max(i, 0)]
}

// report analyses a stored run and writes what it says to stdout.
// Commands in it name runs by short, nil = by the whole ID.
func (a *invocation) report(r *bench.Run, o formatOptions, short report.Short, trailer []string) error {
	d, err := a.document(r, short)
	if err != nil {
		return err
	}
	d.Trailer = trailer
	if n := damagedTrials(r); n > 0 && o.format(a.global.JSON).Silent {
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
	result, err := analysis.Analyze(r, analysis.Options{
		Notes: bench.NotesOf(app.Workloads()...), Running: r.End == nil && a.underWay(&r.Header), Singles: true,
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
	err = o.format(a.global.JSON).Write(a.stdout, d, style)
	if o.page != "" {
		err = errors.Join(err, writeNewFile("--html", o.page, func(w io.Writer) error { return app.WritePage(w, d) }))
	}
	return err
}

// storedHint says where a run was saved. What can be done with it, the report says.
func storedHint(r *bench.Run) []string {
	as := r.Header.ID
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
