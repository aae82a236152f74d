package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
)

// planOptions are the flags that change an experiment.
type planOptions struct {
	engines, images    []string
	remote             string
	networks, storages []string
	factors            []string
	params, labels     []string
	short              map[string]*string // of shortParams
	concurrency        string
	overrides          experiment.Overrides
	warmup             int
	seed               uint64
	noControl          bool
	flags              *pflag.FlagSet
}

// shortParams are the options of workloads that have a flag of their own.
func shortParams() []bench.Param {
	return []bench.Param{
		{Name: "count", Doc: "number of containers: short for --param count=`N`"},
		{Name: "pings", Doc: "requests per trial: short for --param pings=`N`"},
		{Name: "size", Doc: "size of the workload's file, datagram or block: short for --param size=`N`"},
		{Name: "tool", Doc: "`program` of this host to measure with: short for --param tool=NAME"},
	}
}

func (o *planOptions) addFlags(f *pflag.FlagSet) {
	o.flags, o.short = f, map[string]*string{}
	f.StringArrayVarP(&o.engines, "engine", "e", nil,
		"comma-separated `names` of engines to compare; ENGINE,name=N,OPTION=VALUE adds another instance")
	f.StringVar(&o.remote, "remote", "", "use the engines of another machine, through ssh: `[USER@]HOST`")
	f.StringSliceVar(&o.images, "image", nil, "comma-separated `references` of images to compare")
	f.StringSliceVar(&o.networks, "network", nil,
		"comma-separated `names` of networks to compare, such as native,host,bridge,published")
	f.StringSliceVar(&o.storages, "storage", nil,
		"comma-separated `names` of storage to compare, such as layer,volume,bind,tmpfs")
	f.StringArrayVar(&o.factors, "factor", nil, "any factor with its levels: `NAME=LEVEL,LEVEL`")
	f.StringArrayVar(&o.params, "param", nil, "an option of the workload: `NAME=VALUE`")
	for _, p := range shortParams() {
		o.short[p.Name] = f.String(p.Name, "", p.Doc)
	}
	f.StringVar(&o.concurrency, "concurrency", "", "numbers of concurrent containers, each a condition: `N,N`")
	f.StringArrayVar(&o.labels, "label", nil, "a label to store with the run: `KEY=VALUE`")
	f.StringVar(&o.overrides.Baseline, "baseline", "", "`cell` to compare the others with, or FACTOR=LEVEL")
	f.StringVarP(&o.overrides.Blocks, "blocks", "n", "", "number of blocks: `N`, or MIN..MAX; fewer if --budget ends "+
		"the run first")
	f.StringSliceVar(&o.overrides.Precision, "precision", nil,
		"stop when every primary comparison is this precise, such as `3%`, or METRIC=3%; or off")
	f.StringVar(&o.overrides.Budget, "budget", "", "stop after this `time`, such as 2m; or off")
	f.StringSliceVar(&o.overrides.Smallest, "smallest", nil,
		"smallest difference that matters, such as `1%`, or METRIC=5%; or auto")
	f.StringVar(&o.overrides.Washout, "washout", "", "longest `time` to wait between trials until the machine is "+
		"quiet; or off")
	f.StringVar(&o.overrides.Slice, "interleave", "", "length of the turns that cells take within a block: `time`, auto "+
		"or off")
	f.StringVar(&o.overrides.Trial, "trial-timeout", "", "longest `time` for one trial")
	f.StringVar(&o.overrides.Operation, "operation-timeout", "", "longest `time` for one operation")
	f.StringSliceVar(&o.overrides.Primary, "primary", nil, "comma-separated `metrics` that decide")
	f.IntVar(&o.warmup, "warmup", 0, "number of warm-up `blocks`, which run first and are not counted")
	f.Uint64Var(&o.seed, "seed", 0, "`number` that determines the order of trials")
	f.BoolVar(&o.overrides.Syscalls, "syscalls", false,
		"also count the system calls of containers, as a reason; slows every system call of this machine")
	f.IntVar(&o.overrides.Timeline, "timeline", 0, fmt.Sprintf("after every `K` blocks (%d by default), also trace one "+
		"start in each cell: where its time goes; not in the other numbers", bench.TimelineEvery))
	f.Lookup("timeline").NoOptDefVal = strconv.Itoa(bench.TimelineEvery)
	f.BoolVar(&o.noControl, "no-control", false, "do not run the baseline a second time to measure the noise")
}

// experimentAndImages allows one experiment, and images after the one that is of
// images. Engines that are separated by blanks are told from both.
func experimentAndImages(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] == app.ImageWorkload() {
		return nil
	}
	isEngine := func(word string) bool { return slices.Contains(app.Names(app.Builtin()), word) }
	if len(args) > 1 && isEngine(args[1]) {
		engines, _ := cmd.Flags().GetStringArray("engine")
		for _, word := range args {
			if isEngine(word) {
				engines = append(engines, word)
			}
		}
		return &usageError{
			fmt.Errorf("unexpected argument %q", args[1]),
			fmt.Sprintf("%s is an engine: write engines with commas, such as --engine %s", args[1], strings.Join(engines, ",")),
		}
	}
	return atMostOne("an experiment")(cmd, args)
}

// parseArgs reads the arguments, and returns the experiment.
func (o *planOptions) parseArgs(args []string) (experiment string, err error) {
	if len(args) == 0 {
		return defaultExperiment, nil
	}
	if len(args) > 1 && len(o.images) > 0 {
		return "", &usageError{errors.New("images are given twice"), "name them either as arguments or with --image"}
	}
	o.images = append(o.images, args[1:]...)
	return args[0], nil
}

// read turns flags into overrides of an experiment.
func (o *planOptions) read() (experiment.Overrides, error) {
	out := o.overrides
	chosen, declared, err := parseEngines(o.engines)
	if err != nil {
		return out, err
	}
	out.Instances = declared
	for _, l := range []experiment.Levels{
		{Factor: "engine", Levels: chosen},
		{Factor: "image", Levels: o.images},
		{Factor: "network", Levels: o.networks},
		{Factor: "storage", Levels: o.storages},
	} {
		if len(l.Levels) > 0 {
			out.Factors = append(out.Factors, l)
		}
	}
	factors, err := keyValues("factor", o.factors)
	if err != nil {
		return out, err
	}
	for _, p := range factors {
		out.Factors = append(out.Factors,
			experiment.Levels{Factor: p.Key, Levels: strings.Split(p.Value, ","), Flag: "--factor " + p.Key})
	}
	if out.Params, err = keyValues("param", o.params); err != nil {
		return out, err
	}
	for _, p := range shortParams() {
		if o.flags.Changed(p.Name) {
			out.Params = append(out.Params, bench.Label{Key: p.Name, Value: *o.short[p.Name]})
		}
	}
	if o.concurrency != "" {
		out.Factors = append(out.Factors, experiment.Levels{Factor: "concurrency", Levels: strings.Split(o.concurrency, ",")})
	}
	if out.Labels, err = keyValues("label", o.labels); err != nil {
		return out, err
	}
	if o.flags.Changed("warmup") {
		out.Warmup = &o.warmup
	}
	if o.flags.Changed("seed") {
		out.Seed = &o.seed
	}
	if o.noControl {
		out.Control = new(bool)
	}
	return out, nil
}

// keyValues reads KEY=VALUE flags.
func keyValues(flag string, values []string) ([]bench.Label, error) {
	var out []bench.Label
	for _, v := range values {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return nil, &usageError{fmt.Errorf("invalid value %q for --%s", v, flag), "write NAME=VALUE"}
		}
		out = append(out, bench.Label{Key: key, Value: value})
	}
	return out, nil
}

// plan reads an experiment and expands it for this machine.
func (a *invocation) plan(ctx context.Context, t *app.App, name string, o planOptions) (*app.Planned, error) {
	e, err := a.experiment(name)
	if err != nil {
		return nil, err
	}
	overrides, named, err := a.overrides(o)
	if err != nil {
		return nil, err
	}
	if err := e.Override(overrides); err != nil {
		return nil, &usageError{err: named(err)}
	}
	p, err := t.Plan(ctx, e, o.remote)
	if p == nil {
		return nil, named(err)
	}
	for _, l := range e.Excluded(p.Plan) {
		a.notice("%s is skipped: %s", l.Value, excludedReason(l, p.Plan, name))
	}
	return p, err
}

// excludedReason says that an experiment has no cell with a level, and where to look for
// the reason: not in stdin, which has been read.
func excludedReason(l bench.Label, plan bench.Plan, name string) string {
	if experiment.Ignored(l, plan) {
		return fmt.Sprintf("a plain process has no %s to choose; name an engine that makes containers, such as floor", l.Key)
	}
	why := fmt.Sprintf("no cell of the experiment has %s: %s", l.Key, l.Value)
	if name == "-" {
		return why
	}
	return fmt.Sprintf("%s; 'tare plan --yaml %s' shows what it excludes", why, name)
}

// experiment reads a built-in experiment or a file.
func (a *invocation) experiment(name string) (*experiment.Experiment, error) {
	file, data, err := a.source(name)
	if err != nil {
		return nil, err
	}
	e, err := experiment.Parse(file, data)
	if err != nil {
		return nil, &usageError{err: err}
	}
	return e, nil
}

// maxExperiment bounds what is read of a file: one byte more than the
// experiment package takes, so that it is the one to refuse.
const maxExperiment = experiment.MaxBytes + 1

func (a *invocation) experimentSource(name string) (file string, data []byte, err error) {
	if data, ok := experiment.Builtin(name); ok {
		return name + ".yaml", data, nil
	}
	if name == "-" {
		data, err = io.ReadAll(io.LimitReader(a.stdin, maxExperiment))
		return "stdin", data, err
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && filepath.Base(name) == name && filepath.Ext(name) == "" {
		return "", nil, noExperiment(name)
	}
	if err != nil {
		return "", nil, &usageError{err, "give a YAML file, or the name of a built-in experiment"}
	}
	defer func() { _ = f.Close() }() // it was only read
	if data, err = io.ReadAll(io.LimitReader(f, maxExperiment)); err != nil {
		return "", nil, &usageError{err, "give a YAML file, or the name of a built-in experiment"}
	}
	return name, data, nil
}

// noExperiment is the error of a name that is neither that of a built-in experiment nor of a file.
func noExperiment(name string) error {
	if slices.Contains(app.Names(app.Builtin()), name) {
		return &usageError{
			fmt.Errorf("unknown experiment %q", name),
			fmt.Sprintf("%s is an engine: write engines with commas, such as --engine native,%s", name, name),
		}
	}
	known := builtinNames()
	hint := "built-in experiments: " + strings.Join(known, ", ") + "; or give a YAML file"
	if near, ok := experiment.Nearest(name, known); ok {
		hint = fmt.Sprintf("did you mean %s? %s", near, hint)
	}
	return &usageError{fmt.Errorf("unknown experiment %q", name), hint}
}

func builtinNames() (names []string) {
	for _, b := range experiment.Builtins() {
		names = append(names, b.Name)
	}
	return names
}

func (a *invocation) planCommand() *cobra.Command {
	var o planOptions
	var asYAML bool
	cmd := &cobra.Command{
		Use:   "plan [EXPERIMENT|FILE] [IMAGE]...",
		Short: "Show what a run would do, without running it",
		Long: `Plan expands an experiment. It shows the cells, the order of the trials, and how
long they may take. It measures nothing.

With --yaml it prints the experiment as it is written, as a start for one of
your own. No other flag can be combined with --yaml. A bucketbench file is
converted to an experiment first.`,
		Example: "  tare plan lifecycle --yaml > mine.yaml",
		Args:    experimentAndImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := o.parseArgs(args)
			if err != nil {
				return err
			}
			if asYAML {
				return a.printSource(name, cmd.LocalNonPersistentFlags())
			}
			return a.showPlan(cmd.Context(), name, o)
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asYAML, "yaml", false, "print the experiment as it is written")
	cmd.ValidArgsFunction = completeExperiments
	completeFlag(cmd, "engine", completeList(app.Names(app.Builtin())...))
	completeFlag(cmd, "label", a.completeLabels)
	return cmd
}

// printSource prints an experiment as it is written.
func (a *invocation) printSource(name string, flags *pflag.FlagSet) error {
	var others []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "yaml" {
			others = append(others, "--"+f.Name)
		}
	})
	if len(others) > 0 {
		return &usageError{
			fmt.Errorf("--yaml prints the experiment as it is written, so it cannot be combined with %s",
				strings.Join(others, ", ")),
			"use --yaml alone, and edit what it prints",
		}
	}
	_, data, err := a.source(name)
	if err == nil {
		_, err = a.stdout.Write(data)
	}
	return err
}
