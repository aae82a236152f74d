package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment"
	"github.com/tare-bench/tare/internal/host"
	"github.com/tare-bench/tare/internal/schedule"
	"github.com/tare-bench/tare/internal/unit"
)

// defaultExperiment is what 'tare run' does with nothing else said.
const defaultExperiment = "quick"

func (a *invocation) runCommand() *cobra.Command {
	var o planOptions
	var format formatOptions
	var output string
	cmd := &cobra.Command{
		Use:   "run [EXPERIMENT|FILE] [IMAGE]...",
		Short: "Measure, and say which differences are real",
		Long: `Run executes an experiment: a built-in one by name, or a YAML file. With nothing
else said it measures what a container costs on this machine, to start and in CPU,
memory, disk and network, with a plain process and at most four of the engines
found here, in about two minutes. A file for bucketbench is run as the experiment that
does its work, and what does not mean the same is said first.

Built in are these. Each stops once it knows enough, or when its time is used up, which
--budget changes; 'tare plan' says more.

` + builtinList() + `
A run that is interrupted keeps what it has measured: see 'tare resume'. It ends with
exit code 3 where some trials failed; 'tare --help' lists the others.`,
		Example: `  tare run
  tare run lifecycle --engine native,runc,docker --budget 1m
  tare run image host:nginx tar:shop.tar
  tare run my.yaml --blocks 50 --json
  tare run -o - | ssh laptop tare import -`,
		Args: experimentAndImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := o.take(args)
			if err == nil && name == imageExperiment && len(o.images) == 0 {
				err = &usageError{errors.New("which images?"), "tare run image REF REF: see tare image --help for how they are named"}
			}
			if err != nil {
				return err
			}
			return a.run(cmd.Context(), name, o, format, output)
		},
	}
	o.addFlags(cmd.Flags())
	a.addTokenFlag(cmd.Flags())
	format.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the run's records to `file` as they come as well; - for stdout instead of the table")
	cmd.ValidArgsFunction = completeExperiments
	completeFlag(cmd, "engine", completeList(names(builtinInstances())...))
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

// run plans, measures and reports.
func (a *invocation) run(ctx context.Context, name string, o planOptions, format formatOptions, output string) error {
	if err := format.check(a.global.JSON); err != nil {
		return err
	}
	state, err := a.stateDir()
	if err != nil {
		return err
	}
	id := newRunID(a.now())
	p, err := a.plan(ctx, name, o, a.newSite(id, filepath.Join(state, "runs", id)))
	if err != nil {
		return err
	}
	if err := p.usable(ctx); err != nil {
		return err
	}
	if ref := p.onlyImage(); ref != "" {
		a.notice("%s is the only image: it is measured, and compared with nothing; to compare, name two: tare run image %s OTHER", ref, ref)
	}
	block := a.expectedBlock(ctx, p.plan)
	return a.withStore(ctx, func(s bench.Store) error {
		machine, err := openMachine()
		if err != nil {
			return err
		}
		notes := machine.countCalls(p)
		defer machine.Close()
		// Whatever can go wrong before the first trial goes wrong before there is a run.
		dir, err := newRunDir(state, id, p.usedInstances())
		if err != nil {
			return err
		}
		header := a.header(ctx, p, id, state, machine)
		header.Warnings = slices.Concat(header.Warnings, notes)
		out, w, err := a.begin(ctx, s, p, &header, dir.path, output)
		if err != nil {
			return errors.Join(err, dir.remove())
		}
		err = a.execute(ctx, dir, execution{header: header, planned: p, writer: w, machine: machine, block: block})
		err = errors.Join(err, w.Close(), out.close())
		return a.conclude(ctx, s, id, format, output == "-", err)
	})
}

// begin looks for the images, and begins the run in the store and in the output. Where
// that fails the engines are closed, which were asked for images.
func (a *invocation) begin(ctx context.Context, s bench.Store, p *planned, h *bench.Header, dir, name string) (out output, w bench.RunWriter, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeEngines(ctx, p.engines()))
		}
	}()
	same, err := p.checkImages(ctx)
	if err == nil {
		err = p.refused(ctx, dir)
	}
	if err != nil {
		return out, nil, err
	}
	h.Warnings = slices.Concat(h.Warnings, same)
	if out, err = a.openOutput(name); err != nil {
		return out, nil, err
	}
	if w, err = out.create(ctx, s, *h); err != nil {
		return out, nil, errors.Join(err, out.discard())
	}
	return out, w, nil
}

// header is everything about a run that is known before its first trial.
func (a *invocation) header(ctx context.Context, p *planned, id, state string, m machine) bench.Header {
	facts := host.Facts(fsRoot)
	h := bench.Header{
		ID: id, Tool: toolVersion(), Began: a.now().UTC(),
		Plan:     p.plan,
		Schedule: schedule.Blocks(p.plan),
		Metrics:  append(p.workload.Metrics(), m.Metrics()...),
		Host:     facts,
		Warnings: host.Checks(ctx, host.Examination{Root: fsRoot, Facts: facts, Dirs: []string{existing(state)}}),
	}
	for _, e := range p.used() {
		h.Engines = append(h.Engines, e.info)
	}
	h.Warnings = append(h.Warnings, a.farWarnings(ctx, p)...)
	if len(p.plan.LeftOut) > 0 {
		h.Warnings = append(h.Warnings, leftOut(p.plan))
	}
	return h
}

// leftOut says which engines an experiment that takes only a few did not take.
func leftOut(p bench.Plan) bench.Warning {
	var in []string
	for _, c := range p.Cells {
		if !slices.Contains(in, c.Engine) {
			in = append(in, c.Engine)
		}
	}
	return bench.Warning{
		Code: "engines-left-out",
		Text: "also found here, and left out: " + strings.Join(p.LeftOut, ", "),
		Hint: fmt.Sprintf("add one with --engine %s,%s; --engine auto takes every one", strings.Join(in, ","), p.LeftOut[0]),
	}
}

// randomSeed draws the seed of a run. It is short enough to be typed, and for
// every program that reads JSON numbers as doubles.
func randomSeed() uint64 { return rand.Uint64N(1_000_000) }
