package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/text/unit"
)

// gateMargin is the margin of a gate if neither the experiment nor the user has one: a gate
// whose margin follows the noise would pass anything on a noisy machine.
const gateMargin = "5%"

// gateOptions say how a gate judges, and where it writes its judgement as well.
type gateOptions struct {
	strict bool
	plant  string
	github bool
	files  map[string]*string // by the name of the format
}

func (a *invocation) gateCommand() *cobra.Command {
	var o planOptions
	g := gateOptions{files: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "gate EXPERIMENT|FILE|RUN [IMAGE]...",
		Short: "Fail if something is worse, for continuous integration",
		Long: `Gate measures an experiment as 'tare run' does, or takes a stored run, and fails if
a primary metric is worse than the baseline's: confirmed after the adjustment
for all comparisons, and by more than the margin. The margin is --smallest,
5% by default.

All cells run interleaved, and the run stops when its results are precise
enough, never on what they are. Gate says which difference it would have found.
--plant delays each start in the cells that are compared, to prove that the gate
can fail. That needs a primary metric with the start in its time, as lifecycle
and start have: no delay of a start makes a CPU, a disk or a network slower.

The exit code is 0 if the gate passes, 5 if something is worse, and 6 if nothing
can be said: something is unreliable, because the control differs from the
baseline, nothing was compared, there are too few blocks or, with --strict,
something is not shown to be harmless. It is 3 if it would have passed, but
trials failed.`,
		Example: `  tare gate lifecycle -e runc -e runc,name=new,binary=./runc --smallest 10%
  tare gate image shop:1.4 shop:1.5 --budget 5m --junit gate.xml
  tare gate last --strict`,
		Args: gateArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("github") {
				g.github = a.env("GITHUB_ACTIONS") == "true"
			}
			return a.gate(cmd.Context(), cmd, args, o, g)
		},
	}
	f := cmd.Flags()
	o.addFlags(f)
	f.BoolVar(&g.strict, "strict", false, "pass only what is shown to be harmless")
	f.StringVar(&g.plant, "plant", "",
		"delay each start in the compared cells by this `time`, to prove that a gate of start times fails")
	f.BoolVar(&g.github, "github", false, "also write annotations and the step summary of GitHub's Actions (default: if "+
		"$GITHUB_ACTIONS is true)")
	for _, x := range app.GateFiles() {
		g.files[x.Name] = f.String(x.Name, "", "also write "+x.Doc+" to `file`")
	}
	cmd.ValidArgsFunction = a.completeGate
	completeFlag(cmd, "engine", completeList(app.Names(app.Builtin())...))
	completeFlag(cmd, "label", a.completeLabels)
	return cmd
}

// gateArgs wants an experiment or a run: a gate without one would judge whatever is the default.
func gateArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return &usageError{
			errors.New("no experiment and no run given"),
			"write tare gate EXPERIMENT -e A,B, or tare gate RUN; 'tare run --help' lists the experiments",
		}
	}
	return experimentAndImages(cmd, args)
}

// completeGate completes experiments and stored runs.
func (a *invocation) completeGate(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, directive := completeExperiments(cmd, args, word)
	if len(args) > 0 {
		return names, directive
	}
	runs, _ := a.completeRuns(cmd, args, word)
	return append(names, runs...), directive
}

// gate measures, unless it is given a stored run, and judges.
func (a *invocation) gate(ctx context.Context, cmd *cobra.Command, args []string, o planOptions, g gateOptions) error {
	if err := g.checkFiles(); err != nil {
		return err
	}
	if isExperiment(args[0]) {
		return a.gateExperiment(ctx, args, o, g)
	}
	var changed []string
	planned := map[string]bool{}
	for _, group := range flagGroups() {
		for _, name := range group.Flags {
			planned[name] = name != "smallest" && group.Title != "Output" && group.Title != "Judgement"
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && (planned[f.Name] || f.Name == "plant" || f.Name == "label") {
			changed = append(changed, "--"+f.Name)
		}
	})
	if len(changed) > 0 {
		hint := "leave them out, or name an experiment; 'tare run --help' lists those that are built in"
		if near, ok := experiment.Nearest(args[0], builtinNames()); ok {
			hint = fmt.Sprintf("did you mean the experiment %s? Otherwise %s", near, hint)
		}
		return &usageError{fmt.Errorf("%s: a stored run cannot be changed", sentenceList(changed)), hint}
	}
	margin, err := storedMargin(o.overrides.Smallest)
	if err != nil {
		return err
	}
	return a.withRuns(ctx, func(s bench.Store) error {
		r, err := app.OpenRun(ctx, s, args[0])
		if err != nil {
			return err
		}
		return a.judge(ctx, s, r, margin, g)
	})
}

// checkFiles says before a run begins that a file could not be made after it.
func (g *gateOptions) checkFiles() error {
	named := map[string]string{} // flags by file
	for _, x := range app.GateFiles() {
		file := *g.files[x.Name]
		if file == "" {
			continue
		}
		if err := checkNewFile("--"+x.Name, file); err != nil {
			return err
		}
		if other := named[filepath.Clean(file)]; other != "" && !isDevice(file) {
			return &usageError{
				fmt.Errorf("--%s and --%s name the same file, %s", other, x.Name, file), "choose another name for one of them",
			}
		}
		named[filepath.Clean(file)] = x.Name
	}
	return nil
}

// isExperiment reports whether an argument names a built-in experiment or a file.
func isExperiment(name string) bool {
	if _, ok := experiment.Builtin(name); ok || name == "-" {
		return true
	}
	_, err := os.Stat(name)
	return err == nil
}

// storedMargin reads the one margin that a stored run can be judged by; 0 = its own.
func storedMargin(smallest []string) (float64, error) {
	switch len(smallest) {
	case 0:
		return 0, nil
	case 1:
		if v, err := unit.ParsePercent(smallest[0]); err == nil && v > 0 {
			return v, nil
		}
	}
	return 0, &usageError{
		fmt.Errorf("invalid value %q for --smallest", strings.Join(smallest, ",")),
		"a stored run is judged by one margin, such as 5%, or by those that it was planned with",
	}
}

// gateExperiment measures an experiment, and judges the run.
func (a *invocation) gateExperiment(ctx context.Context, args []string, o planOptions, g gateOptions) error {
	name, err := o.parseArgs(args)
	if err != nil {
		return err
	}
	t, err := a.newApp()
	if err != nil {
		return err
	}
	p, err := a.plan(ctx, t, name, o)
	if err != nil {
		return err
	}
	if err := p.Usable(ctx); err != nil {
		return err
	}
	if err := prepareGate(p, g.plant, len(o.overrides.Precision) > 0); err != nil {
		return err
	}
	return a.withStore(ctx, func(s bench.Store) error {
		id, err := t.Measure(ctx, s, p, app.Options{Interrupt: a.interrupted})
		if id == "" {
			return err
		}
		a.narrator.cleaned(id, err)
		kept := context.WithoutCancel(ctx)
		r, openErr := s.Open(kept, id)
		if openErr != nil {
			return errors.Join(err, openErr)
		}
		outcome, beside := app.Conclude(r, err, ctx.Err() != nil)
		if outcome != nil && !errors.Is(outcome, app.ErrTrialsFailed) {
			return errors.Join(app.NewShortener(kept, s).Shorten(kept, outcome), beside)
		}
		return errors.Join(a.judge(kept, s, r, 0, g), outcome)
	})
}

// prepareGate gives a plan the margin of a gate, the precision that goes with it, and what is
// planted.
func prepareGate(p *app.Planned, plant string, precision bool) error {
	plan := &p.Plan
	if plan.Smallest == 0 {
		plan.Smallest, _ = unit.ParsePercent(gateMargin) // it is one
	}
	if !precision {
		plan.Precision = plan.Smallest / 2
	}
	if plant == "" {
		return nil
	}
	delay, err := unit.ParseDuration(plant)
	if err != nil || delay <= 0 || delay > time.Minute {
		return &usageError{fmt.Errorf("invalid value %q for --plant", plant), "write a time up to 1m, such as 20ms"}
	}
	if !p.ShowsPlants() {
		return &usageError{
			errors.New("--plant delays starts, and no primary metric of this experiment has a start in its time"),
			"plant it in 'tare gate lifecycle' or 'tare gate start' with the same engines",
		}
	}
	for i, c := range plan.Cells {
		if !c.Baseline && !c.Control {
			plan.Plants = append(plan.Plants, bench.Plant{Cell: i, Delay: delay})
		}
	}
	return nil
}

// judge says what a run means for a gate, wherever that is to be read.
func (a *invocation) judge(ctx context.Context, s bench.Store, r *bench.Run, margin float64, g gateOptions) error {
	if r.Header.Plan.Smallest == 0 { // of metrics without a margin of their own
		r.Header.Plan.Smallest, _ = unit.ParsePercent(gateMargin) // it is one
	}
	short := app.NewShortener(ctx, s)
	d, err := a.documentWithin(r, shortIn(ctx, short), margin)
	if err != nil {
		return err
	}
	j := app.Judge(d, g.strict, short.Short(ctx, r.Header.ID))
	errs := []error{app.WriteJudgement(a.stdout, j, a.width(), a.global.JSON)}
	for _, x := range app.GateFiles() {
		if file := *g.files[x.Name]; file != "" {
			errs = append(errs, writeNewFile("--"+x.Name, file, func(w io.Writer) error { return x.Write(w, j) }))
		}
	}
	if g.github {
		errs = append(errs, a.annotate(j))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return gateError(j)
}

// annotate writes what GitHub's Actions show: annotations, and the step's summary to the file that they
// name. Actions read commands on stderr too, where they do not spoil JSON.
func (a *invocation) annotate(j *app.Judgement) error {
	var to io.Writer = a.stdout
	if a.global.JSON {
		to = a.stderr
	}
	if err := app.WriteAnnotations(to, j); err != nil {
		return err
	}
	name := a.env("GITHUB_STEP_SUMMARY")
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return &outputError{fmt.Errorf("the step summary: %w", err)}
	}
	return errors.Join(app.WriteGateMarkdown(f, j), f.Close())
}

// errWorse and errUndecided are how a gate ends that does not pass.
var (
	errWorse     = errors.New("worse than the baseline by more than the margin")
	errUndecided = errors.New("nothing can be said")
)

func gateError(j *app.Judgement) error {
	switch j.Outcome {
	case app.GateWorse:
		return errWorse
	case app.GateUndecided:
		return errUndecided
	case app.GateTrialsFailed:
		return app.ErrTrialsFailed
	default:
		return nil
	}
}
