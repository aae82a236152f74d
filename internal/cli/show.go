package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/term"
)

// showOptions are what to show of a run: one view of it, or its report.
type showOptions struct {
	format                formatOptions
	trials, applied, plot bool
	traced                timelineOptions
	as                    string // the form of another program; empty = none
}

func (a *invocation) showCommand() *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:   "show [RUN [CELL]]",
		Short: "Show the report of a stored run",
		Long: `Show analyses a stored run again and prints its report. RUN is an ID, a unique
beginning or end of one, a name, or "last", which is the default.

--trials lists every trial. --applied shows the settings that the engines
really applied to the containers of each cell. --plot draws the values and
changes of the primary metrics.

--timeline shows where the time of a start goes, of a run that was made with it:
what each cell spends more than its baseline and, with CELL, the processes that
took part. --vs compares CELL with another one; --of explains another metric
that the run has traced, such as exec.

` + formDocs(),
		Args: runAndCell(&o.traced),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkShow(&o); err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				return a.show(cmd.Context(), s, append(args, "last")[0], &o)
			})
		},
	}
	o.format.addFlags(cmd)
	cmd.Flags().BoolVar(&o.trials, "trials", false, "list every trial with its outcome")
	cmd.Flags().BoolVar(&o.applied, "applied", false, "show the settings that were applied in each cell")
	cmd.Flags().BoolVar(&o.plot, "plot", false, "draw the values and changes of each primary metric")
	cmd.Flags().BoolVar(&o.traced.on, "timeline", false, "show where the time of a start goes, process by process")
	cmd.Flags().StringVar(&o.traced.vs, "vs", "", "with --timeline: compare with this `cell` instead of the baseline")
	cmd.Flags().StringVar(&o.traced.of, "of", "", "with --timeline: explain this `metric`, such as exec or stop")
	cmd.Flags().StringVar(&o.as, "as", "", "print the run in the form of another `program`: "+sentenceList(formNames()))
	cmd.ValidArgsFunction = a.completeRunAndCell
	completeFlag(cmd, "vs", a.completeCells)
	completeFlag(cmd, "of", completeFixed(explainedNames()...))
	completeFlag(cmd, "as", completeFixed(formNames()...))
	return cmd
}

// checkShow refuses what there is not, and what cannot be combined.
func (a *invocation) checkShow(o *showOptions) error {
	if err := a.checkFormat(o.format); err != nil {
		return err
	}
	views := map[string]bool{
		"--trials": o.trials, "--applied": o.applied, "--plot": o.plot, "--timeline": o.traced.on,
	}
	if err := exclusiveLists(o.format, views); err != nil {
		return err
	}
	others := a.global.JSON || o.format.name != "" || o.format.page != "" || o.trials || o.applied || o.plot || o.traced.on
	return checkForm(o.as, others)
}

// show shows a run of a store, of which it reads no more than that needs.
func (a *invocation) show(ctx context.Context, s bench.Store, name string, o *showOptions) error {
	switch {
	case o.traced.on:
		return a.showTimeline(ctx, s, name, o.traced, o.format)
	case o.trials:
		id, err := app.FindRun(ctx, s, name)
		if err != nil {
			return err
		}
		return a.showTrials(ctx, s, id)
	}
	open := app.OpenSingles
	if short := o.format == (formatOptions{}) && o.as == ""; short && !a.global.JSON {
		open = app.OpenValues // the first screen has no single operations
	}
	r, err := open(ctx, s, name)
	switch {
	case err != nil:
		return err
	case o.as != "":
		return a.showAs(o.as, r)
	case o.applied:
		return a.showApplied(r)
	case o.plot:
		return a.showPlot(r)
	default:
		return a.report(r, o.format, shortIn(ctx, app.NewShortener(ctx, s)), nil)
	}
}

// exclusiveLists refuses a view of a run combined with another one, or with a format of reports.
func exclusiveLists(format formatOptions, chosen map[string]bool) error {
	var views []string
	for name, on := range chosen {
		if on {
			views = append(views, name)
		}
	}
	slices.Sort(views)
	switch {
	case len(views) > 1:
		return &usageError{errors.New(sentenceList(views) + " cannot be combined"), "use one, then the other"}
	case len(views) > 0 && format.name != "" && format.name != "json":
		return &usageError{
			fmt.Errorf("%s has no --format %s", views[0], format.name),
			"for output that programs read, use --json",
		}
	case len(views) > 0 && format.page != "":
		return &usageError{fmt.Errorf("%s has no page", views[0]), "leave out --html; 'tare report' writes the page alone"}
	}
	return nil
}

// showPlot draws the first screen's metrics.
func (a *invocation) showPlot(r *bench.Run) error {
	if a.global.JSON {
		return &usageError{errors.New("--plot cannot be combined with --json"), "--json alone has every value"}
	}
	d, err := a.document(r, nil)
	if err != nil {
		return err
	}
	return app.WritePlot(a.stdout, d, a.width())
}

// shownApplied is what was applied in one cell.
type shownApplied struct {
	Cell    string         `json:"cell"`
	Engine  string         `json:"engine"`
	Applied *bench.Applied `json:"applied"` // of the first trial that got so far; null where none did
}

func (a *invocation) showApplied(r *bench.Run) error {
	all := make([]shownApplied, len(r.Header.Plan.Cells))
	for i, c := range r.Header.Plan.Cells {
		all[i] = shownApplied{Cell: c.FullName(), Engine: c.Engine}
	}
	for _, s := range r.Samples {
		if c := &all[s.Trial.Cell]; c.Applied == nil {
			c.Applied = s.Applied
		}
	}
	if a.global.JSON {
		return a.printJSON(all)
	}
	rows := [][]string{{"CELL", "RUNTIME", "NETWORK", "ROOT", "CGROUP", "SECCOMP", "CPUSET", "MEMORY", "IMAGE"}}
	for _, c := range all {
		if p := c.Applied; p != nil {
			rows = append(rows, []string{
				c.Cell, orDash(p.Runtime), orDash(p.Network), orDash(p.Storage), orDash(p.Cgroup), orDash(p.Security.Seccomp),
				orDash(p.Limits.CPUSet), memorySize(p.Limits.Memory), fmt.Sprintf("%.19s", orDash(p.Image)),
			})
		}
	}
	term.WriteTable(a.stdout, rows, term.Unlimited)
	return nil
}

func orDash(s string) string { return cmp.Or(s, "–") }

func memorySize(n int64) string {
	if n == 0 {
		return "–"
	}
	return bytesText(n)
}

func (a *invocation) compareCommand() *cobra.Command {
	var format formatOptions
	var by string
	cmd := &cobra.Command{
		Use:   "compare RUN RUN...",
		Short: "Compare separate runs, such as those of two days or two hosts",
		Long: `Compare sets runs against the first one, or runs of several hosts against those
of the first host. Such runs were not interleaved: host, day and neighbours are
confounded with what is compared, and the report says so. To compare engines or
images, put them into one run instead.

One run on each side shows a shift but no verdict, because each run has an
effect of its own. Several runs on each side have verdicts. Make them in turn,
and tell the sides apart with a label:

  tare run --label side=before; tare run --label side=after   # six times
  tare compare RUN... --by label:side

Runs that 'tare run --on HOST,HOST' has measured together are compared block by
block: what comes and goes for all hosts, such as the hour, cancels out. That
tells machines apart. To learn about kinds of machines, measure several of each
and group them, such as with --by os: then each host counts once.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return &usageError{
					fmt.Errorf("%s needs at least two runs, got %d", cmd.CommandPath(), len(args)),
					"'tare list' shows the stored runs",
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkFormat(format); err != nil {
				return err
			}
			if _, err := grouping(by); err != nil {
				return err
			}
			return a.withRuns(cmd.Context(), func(s bench.Store) error {
				d, err := a.comparison(cmd.Context(), s, args, by)
				if err != nil {
					return err
				}
				return a.render(d, format)
			})
		},
	}
	format.addFlags(cmd)
	cmd.Flags().StringVar(&by, "by", "auto", "how to `group` runs: auto, host, os, run or label:KEY")
	cmd.ValidArgsFunction = a.completeRuns
	completeFlag(cmd, "by", a.completeGrouping)
	return cmd
}

// grouping returns what runs of one group have in common; nil for the default.
func grouping(by string) (func(*bench.Header) string, error) {
	key, isLabel := labelKey(by)
	switch {
	case by == "auto":
		return nil, nil
	case by == "host":
		return func(h *bench.Header) string { return analysis.HostName(&h.Host) }, nil
	case by == "os":
		return func(h *bench.Header) string { return h.Host.OS }, nil
	case by == "run":
		return func(h *bench.Header) string { return h.ID }, nil
	case isLabel:
		return func(h *bench.Header) string { return label(h.Plan.Labels, key) }, nil
	default:
		return nil, &usageError{fmt.Errorf("invalid value %q for --by", by), "use auto, host, os, run or label:KEY"}
	}
}

// comparison sets runs against others; by says which belong together.
func (a *invocation) comparison(
	ctx context.Context, s bench.Store, names []string, by string,
) (*report.Document, error) {
	group, err := grouping(by)
	if err != nil {
		return nil, err
	}
	var runs []*bench.Run
	for _, name := range names {
		r, err := app.OpenValues(ctx, s, name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(runs, func(o *bench.Run) bool { return o.Header.ID == r.Header.ID }) {
			return nil, &usageError{fmt.Errorf("run %s is given twice", r.Header.ID), "'tare list' shows the stored runs"}
		}
		runs = append(runs, r)
	}
	if key, ok := labelKey(by); ok && !slices.ContainsFunc(runs, func(r *bench.Run) bool {
		return slices.ContainsFunc(r.Header.Plan.Labels, func(l bench.Label) bool { return l.Key == key })
	}) {
		return nil, &usageError{
			fmt.Errorf("none of these runs has the label %q", key),
			"'tare run --label KEY=VALUE' sets a label; 'tare show RUN --json' lists those of a run",
		}
	}
	contrast, err := analysis.Compare(runs, analysis.CompareOptions{Group: group, Running: a.underWay})
	if errors.Is(err, analysis.ErrOneGroup) {
		return nil, &usageError{err, "group them by something else, such as --by run"}
	}
	if err != nil {
		return nil, err
	}
	return report.NewComparison(contrast, shortIn(ctx, app.NewShortener(ctx, s))), nil
}

func labelKey(by string) (key string, ok bool) {
	key, ok = strings.CutPrefix(by, "label:")
	return key, ok && key != ""
}

func label(labels []bench.Label, key string) string {
	for _, l := range labels {
		if l.Key == key {
			return l.Value
		}
	}
	return ""
}
