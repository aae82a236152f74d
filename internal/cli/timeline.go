package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
)

// timelineOptions say which timelines of a run are shown.
type timelineOptions struct {
	on   bool
	of   string // what they explain; empty = the start, or whatever the run has
	cell string // empty = all of them, or the only one that is compared
	vs   string // empty = the baseline
}

// runAndCell wants at most a run, and a cell after it if timelines are shown.
func runAndCell(o *timelineOptions) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 && o.on {
			o.cell = args[1]
			return nil
		}
		if len(args) == 2 {
			return &usageError{
				fmt.Errorf("unexpected argument %q: a cell needs --timeline", args[1]), "write tare show RUN --timeline CELL",
			}
		}
		if o.vs != "" && !o.on {
			return &usageError{errors.New("--vs needs --timeline"), "write tare show RUN --timeline CELL --vs CELL"}
		}
		if o.of != "" && !o.on {
			return &usageError{errors.New("--of needs --timeline"), "write tare show RUN --timeline --of exec"}
		}
		return atMostOne("a run")(cmd, args)
	}
}

// showTimeline shows where the time of a stored run's starts goes.
func (a *invocation) showTimeline(
	ctx context.Context, s bench.Store, name string, o timelineOptions, f formatOptions,
) error {
	r, err := app.OpenTraced(ctx, s, name)
	if err != nil {
		return err
	}
	return a.timelines(r, o, f, shortIn(ctx, app.NewShortener(ctx, s)), nil)
}

// timelines writes where the time of a run's starts goes.
func (a *invocation) timelines(
	r *bench.Run, o timelineOptions, f formatOptions, short report.Short, trailer []string,
) error {
	t, err := app.Timelines(r, o.of, o.cell, o.vs)
	if err != nil {
		return err
	}
	if a.global.JSON {
		return plain.WriteJSON(a.stdout, t, "  ")
	}
	d, err := a.analysed(r, short, 0)
	if err != nil {
		return err
	}
	color, err := a.color()
	if err != nil {
		return err
	}
	d.Timelines, d.Next, d.Trailer = t, d.PictureSteps(short), trailer
	return app.WriteTimelines(a.stdout, d, app.Style{Color: color, Width: a.width(), All: f.all})
}

// completeRunAndCell proposes stored runs and then, for a timeline, the cells of the run.
func (a *invocation) completeRunAndCell(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 || !cmd.Flags().Changed("timeline") {
		return a.completeRuns(cmd, args, typed)
	}
	return a.completeCells(cmd, args, typed)
}

// completeCells proposes the cells of the run that is named, or of the last one.
func (a *invocation) completeCells(
	cmd *cobra.Command, args []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []string
	_ = a.withRuns(cmd.Context(), func(s bench.Store) error {
		id, err := app.FindRun(cmd.Context(), s, append(args, bench.LastRun)[0])
		if err != nil {
			return err
		}
		h, err := app.HeaderOf(cmd.Context(), s, id)
		if err != nil {
			return err
		}
		for _, c := range h.Plan.Cells {
			if name := c.FullName(); !c.Control && !slices.ContainsFunc([]rune(name), plain.IsHidden) {
				names = append(names, name)
			}
		}
		return nil
	})
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func (a *invocation) explainCommand() *cobra.Command {
	var budget, of string
	cmd := &cobra.Command{
		Use:   "explain ENGINE [ENGINE]",
		Short: "Show where the time of a container's start goes, and why one engine takes longer",
		Long: `Explain starts containers with the first engine and with the second one, a plain
process by default, for a minute. It traces them, and shows where the time to
the first instruction inside goes: first the difference of the two, the largest
part first, then the processes that took part in one start of each. --of
explains another time of a container's life in the same way:

` + explainedDocs() + `

Tracing needs root and a kernel with BTF. It is the experiment lifecycle, or
start, with --timeline: the run is stored, and the times that were not traced
are in 'tare show'.`,
		Example: `  tare explain docker runc
  tare explain podman
  tare explain docker containerd --of exec
  tare explain runc,name=new,binary=./runc runc`,
		Args: enginesToExplain,
		RunE: func(cmd *cobra.Command, args []string) error { return a.explain(cmd.Context(), args, budget, of) },
	}
	cmd.Flags().StringVar(&budget, "budget", "1m", "stop after this `time`, such as 5m")
	cmd.Flags().StringVar(&of, "of", explainedNames()[0], "explain this `time`: "+strings.Join(explainedNames(), ", "))
	cmd.ValidArgsFunction = completeFewEngines
	completeFlag(cmd, "of", completeFixed(explainedNames()...))
	completeFlag(cmd, "budget", completeFixed("1m", "5m"))
	return cmd
}

// explainedNames are what can be explained.
func explainedNames() (names []string) {
	for _, e := range app.Explainable() {
		names = append(names, e.Name)
	}
	return names
}

// explainedDocs has a line for each.
func explainedDocs() string {
	var lines []string
	for _, e := range app.Explainable() {
		lines = append(lines, fmt.Sprintf("  %-7s the time %s", e.Name, e.Doc))
	}
	return strings.Join(lines, "\n")
}

// enginesToExplain wants one or two engines.
func enginesToExplain(cmd *cobra.Command, args []string) error {
	if len(args) == 1 || len(args) == 2 {
		return nil
	}
	return &usageError{
		fmt.Errorf("%s takes one or two engines, got %d", cmd.CommandPath(), len(args)),
		"write tare explain docker runc; 'tare doctor' shows which engines work here",
	}
}

// completeFewEngines proposes engines, each once, for at most two arguments.
func completeFewEngines(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := slices.DeleteFunc(app.Names(app.Builtin()), func(n string) bool { return slices.Contains(args, n) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// explainPlan is what explain measures, as 'tare run' would: two engines, with a traced trial of each after every
// block. Flags that are set take the place of the environment.
func explainPlan(args []string, budget string, what app.Explained) (o planOptions, err error) {
	chosen, _, err := parseEngines(append(slices.Clone(args), explainBase)[:2])
	if err == nil && (len(chosen) != 2 || chosen[0] == chosen[1]) {
		err = errors.New("two different engines are needed")
	}
	if err != nil {
		return o, &usageError{err, "write tare explain docker runc, or ENGINE,name=N,OPTION=VALUE for another instance"}
	}
	o.addFlags(pflag.NewFlagSet("explain", pflag.ContinueOnError))
	flags := [][2]string{
		{"engine", args[0]},
		{"engine", append(slices.Clone(args), explainBase)[1]},
		{"baseline", "engine=" + chosen[1]},
		{"budget", budget},
		{"precision", "off"},
		{"timeline", "1"},
		{"primary", what.Metric}, // so that other reports of the run are about it as well
		{"no-control", "true"},
	}
	for _, name := range slices.Sorted(maps.Keys(what.Params)) {
		flags = append(flags, [2]string{"param", name + "=" + what.Params[name]})
	}
	for _, f := range flags {
		if err := o.flags.Set(f[0], f[1]); err != nil {
			return o, &usageError{err, ""}
		}
	}
	return o, nil
}

// explainBase is what one engine is compared with.
const explainBase = "native"

// explain measures, and shows where the time goes.
func (a *invocation) explain(ctx context.Context, args []string, budget, of string) error {
	i := slices.Index(explainedNames(), of)
	if i < 0 {
		return &usageError{
			fmt.Errorf("there is no --of %.40q", of), "what can be explained: " + sentenceList(explainedNames()),
		}
	}
	what := app.Explainable()[i]
	o, err := explainPlan(args, budget, what)
	if err != nil {
		return err
	}
	t, err := a.newApp()
	if err != nil {
		return err
	}
	p, err := a.plan(ctx, t, what.Experiment, o)
	if err == nil {
		err = p.Usable(ctx)
	}
	if err == nil {
		err = p.CanTrace(ctx)
	}
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(s bench.Store) error {
		id, err := t.Measure(ctx, s, p, app.Options{Interrupt: a.interrupted})
		if id == "" {
			return err
		}
		return a.concludeExplained(ctx, s, id, what.Name, err)
	})
}

// concludeExplained shows the timelines of a run after it ended, well or not.
func (a *invocation) concludeExplained(ctx context.Context, s bench.Store, id, of string, runErr error) error {
	a.narrator.cleaned(id, runErr)
	kept := context.WithoutCancel(ctx)
	r, err := s.Open(kept, id)
	if err != nil {
		return errors.Join(runErr, err)
	}
	short := app.NewShortener(kept, s)
	outcome, beside := app.Conclude(r, runErr, ctx.Err() != nil)
	var shown error
	if outcome == nil || errors.Is(outcome, app.ErrTrialsFailed) {
		shown = a.timelines(r, timelineOptions{of: of}, formatOptions{}, shortIn(kept, short),
			storedHint(r, shortIn(kept, short)))
	}
	_, err = app.Discard(kept, s, r)
	return errors.Join(short.Shorten(kept, cmp.Or(shown, outcome)), beside, err)
}
