package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/text/unit"
)

// defaultExperiment is what 'tare run' does without arguments.
const defaultExperiment = "quick"

func (a *invocation) runCommand() *cobra.Command {
	var o planOptions
	var format formatOptions
	var output, runName string
	var on []string
	cmd := &cobra.Command{
		Use:   "run [EXPERIMENT|FILE] [IMAGE]...",
		Short: "Measure, and show which differences are real",
		Long: `Run executes an experiment: a built-in one by name, or one from a YAML file.
Without arguments it measures what a container costs on this machine: start-up,
CPU, memory, disk and network, for a plain process and at most three of the
engines found here, in about two minutes. A bucketbench file is converted and
run; differences in meaning are printed first.

These are the built-in experiments with their time limits. Each stops earlier
when its results are precise enough. --budget changes the limit, and 'tare plan'
shows more.

` + builtinList() + `
An interrupted run keeps what it has measured, and 'tare resume' continues it.
The exit code is 3 if some trials failed; 'tare --help' lists all exit codes.`,
		Example: `  tare run
  tare run lifecycle --engine native,runc,docker --budget 1m
  tare run image host:nginx tar:shop.tar
  tare run my.yaml --blocks 50 --json
  tare run -o - | ssh laptop tare import -
  tare run cpu --on db1,db2`,
		Args: experimentAndImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := o.parseArgs(args)
			if err == nil && name == app.ImageWorkload() && len(o.images) == 0 {
				err = &usageError{errors.New("no images given"), "write tare run image REF REF; 'tare image --help' explains " +
					"how to name images"}
			}
			if err != nil {
				return err
			}
			if err := a.checkName(cmd.Context(), cmd, runName, on); err != nil {
				return err
			}
			return a.run(cmd.Context(), name, o, format, runOptions{name: runName, output: output, on: on})
		},
	}
	o.addFlags(cmd.Flags())
	format.addFlags(cmd)
	cmd.Flags().StringVar(&runName, "name", "", "a `name` for the run, which every command takes in place of its ID")
	cmd.Flags().StringVarP(&output, "output", "o", "", "also write records to `file` during the run; - prints them "+
		"instead of the report")
	format.addDirFlag(cmd)
	cmd.Flags().StringSliceVar(&on, "on", nil, "measure on these `hosts`, reached by ssh, at the same times; "+
		"then compare them: [USER@]HOST,...")
	cmd.ValidArgsFunction = completeExperiments
	completeFlag(cmd, "engine", completeList(app.Names(app.Builtin())...))
	completeFlag(cmd, "label", a.completeLabels)
	return cmd
}

// builtinList has a line for each experiment, with the time after which it begins no block.
func builtinList() string {
	var b strings.Builder
	for _, e := range experiment.Builtins() {
		fmt.Fprintf(&b, "    %-14s  %6s  %s\n", e.Name, unit.FormatDuration(e.Budget), e.Doc)
	}
	return b.String()
}

// runOptions say what becomes of a run.
type runOptions struct {
	name   string   // what it is called; empty = nothing
	output string   // where its records go as well
	on     []string // the hosts that measure; empty = this one
}

// run plans, measures and reports.
func (a *invocation) run(ctx context.Context, name string, o planOptions, format formatOptions, keep runOptions) error {
	if err := a.checkFormat(format); err != nil {
		return err
	}
	if keep.output == "-" && format.dir != "" {
		return &usageError{
			errors.New("--output - and --output-dir cannot be combined"),
			"--output - prints records in place of the report: write them to a file",
		}
	}
	if len(keep.on) > 0 {
		return a.runOn(ctx, name, o, format, keep)
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
	if err := a.beginLog(format.dir); err != nil {
		return err
	}
	if ref := p.OnlyImage(); ref != "" {
		a.notice("%s is the only image, so it is compared with nothing; to compare two: tare run image %s OTHER", ref, ref)
	}
	return a.withStore(ctx, func(s bench.Store) error {
		records := recordOutput{a: a, name: keep.output}
		id, err := t.Measure(ctx, s, p, app.Options{Name: keep.name, Create: records.create, Interrupt: a.interrupted})
		if id == "" {
			return a.dropLog(err)
		}
		err = errors.Join(err, records.close())
		return a.conclude(ctx, s, id, format, keep.output == "-", err)
	})
}
