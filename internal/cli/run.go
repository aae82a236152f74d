package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/host"
	"github.com/tare-bench/tare/internal/record"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/schedule"
)

// defaultExperiment is what 'tare run' does with nothing else said.
const defaultExperiment = "quick"

func (a *app) runCommand() *cobra.Command {
	var o planOptions
	var format formatOptions
	var output string
	cmd := &cobra.Command{
		Use:   "run [EXPERIMENT|FILE]",
		Short: "Measure, and say which differences are real",
		Long: `Run executes an experiment: a built-in one by name, or a YAML file. With nothing
else said it measures what a container costs on this machine, to start and in CPU,
memory, disk and network, with a plain process and at most four of the engines
found here, in about two minutes. A file for bucketbench is run as the experiment that
does its work, and what does not mean the same is said first.

Exit codes: 0 measured, 3 measured but some trials failed, 4 an engine cannot be
used here, 130 interrupted (what was measured is kept; see 'tare resume').`,
		Example: `  tare run
  tare run lifecycle --engine native,runc,docker --budget 1m
  tare run my.yaml --blocks 50 --json
  tare run -o - | ssh laptop tare import -`,
		Args: atMostOne("an experiment"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := defaultExperiment
			if len(args) == 1 {
				name = args[0]
			}
			return a.run(cmd.Context(), name, o, format, output)
		},
	}
	o.addFlags(cmd.Flags())
	a.addTokenFlag(cmd.Flags())
	format.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the run's records to `file` as they come as well; - for stdout instead of the table")
	cmd.ValidArgsFunction = completeExperiments
	completeFlag(cmd, "engine", completeFixed(names(builtinInstances())...))
	return cmd
}

// run plans, measures and reports.
func (a *app) run(ctx context.Context, name string, o planOptions, format formatOptions, output string) error {
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
	if err := p.usable(); err != nil {
		return err
	}
	return a.withStore(ctx, func(s bench.Store) error {
		machine, err := openMachine()
		if err != nil {
			return err
		}
		defer machine.Close()
		// Whatever can go wrong before the first trial goes wrong before there is a run.
		dir, err := newRunDir(state, id, p.instances)
		if err != nil {
			return err
		}
		out, err := a.openOutput(output)
		if err != nil {
			return errors.Join(err, dir.remove())
		}
		header := a.header(ctx, p, id, state, machine)
		w, err := out.create(ctx, s, header)
		if err != nil {
			return errors.Join(err, out.discard(), dir.remove())
		}
		err = a.execute(ctx, dir, execution{header: header, planned: p, writer: w, machine: machine})
		err = errors.Join(err, w.Close(), out.close())
		return a.conclude(ctx, s, id, format, output == "-", err)
	})
}

// header is everything about a run that is known before its first trial.
func (a *app) header(ctx context.Context, p *planned, id, state string, m machine) bench.Header {
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

// execution is one sitting of a run: its beginning, or a resumption.
type execution struct {
	header  bench.Header
	planned *planned
	writer  bench.RunWriter
	machine machine
	done    []bench.Sample
}

// execute measures with a directory and engines of the run's own, and leaves
// nothing of them behind.
func (a *app) execute(ctx context.Context, dir *runDir, e execution) error {
	engines := e.planned.engines()
	client := e.planned.client()
	a.graceful.Store(true)
	a.announce(e)
	progress := a.newProgress(e.header)
	e.machine.warm = warming(ctx, e.planned.site.images)
	_, runErr := run.Run(ctx, run.Options{
		Header: e.header, Workload: e.planned.workload, Engines: engines, Client: client,
		Writer: e.writer, Machine: e.machine,
		Clock: run.Monotonic(), Now: a.now,
		Done:      e.done,
		Precision: analysis.NewPrecision(e.header.Plan, e.header.Metrics),
		Interrupt: a.interrupted, Observe: progress.observe,
		Command: command,
	})
	progress.end()
	a.graceful.Store(false)
	engines[clientName] = client
	err := closeEngines(ctx, engines)
	if err == nil && progress.failures > 0 {
		err = a.sweep(ctx, e.planned, e.header.ID)
	}
	if err != nil {
		return errors.Join(runErr, leftBehind(err), dir.close())
	}
	return errors.Join(runErr, leftBehind(dir.remove()))
}

// errLeftBehind is how an execution ends that could not clean up after itself.
var errLeftBehind = errors.New("something is left behind")

func leftBehind(err error) error {
	if err == nil {
		return nil
	}
	return &hintError{fmt.Errorf("%w: %w", errLeftBehind, err), "'tare clean' removes it"}
}

// announce says what is about to be measured, and what is left out.
func (a *app) announce(e execution) {
	var cells []string
	control := ""
	for _, c := range e.header.Plan.Cells {
		if c.Control {
			control = " + control"
			continue
		}
		cells = append(cells, cellName(c))
	}
	a.notice("%s: %s%s", e.header.Plan.Name, printable(strings.Join(cells, ", ")), control)
	a.notice("stops %s", stopRule(e.header.Plan))
	for _, p := range e.planned.leftOut() {
		a.notice("left out: %s: %s", p.instance.Name, printable(p.err.Error()))
	}
}

// leftOut lists the engines that a run over everything found does without. A
// run over chosen engines leaves nothing out.
func (p *planned) leftOut() []probed {
	used := p.engines()
	var out []probed
	for _, e := range p.probed {
		_, is := used[e.instance.Name]
		switch {
		case e.err == nil && !is:
			return nil
		case e.err != nil && !is:
			out = append(out, e)
		}
	}
	return out
}

// conclude reports what is stored of a run after it ended, well or not.
func (a *app) conclude(ctx context.Context, s bench.Store, id string, format formatOptions, quiet bool, runErr error) error {
	stored, err := s.Open(context.WithoutCancel(ctx), id)
	if err != nil {
		return errors.Join(runErr, err)
	}
	if len(stored.Samples) > 0 && !quiet {
		// That nobody reads it is known in the end, and no error of the run.
		if err := a.report(stored, format, trailer(stored)); !a.readerGone(err) {
			runErr = errors.Join(runErr, err)
		}
	}
	n, finished := len(stored.Samples), stored.End != nil
	switch {
	case errors.Is(runErr, run.ErrInterrupted), runErr != nil && ctx.Err() != nil:
		return &hintError{fmt.Errorf("run %s: %w; %d trials are stored", id, interruption(runErr), n), "tare resume " + id}
	case runErr != nil && finished:
		return a.concludeFinished(stored, runErr)
	case runErr != nil && n > 0:
		return &hintError{fmt.Errorf("run %s: %w", id, runErr), fmt.Sprintf("the %d trials measured are stored; once it is mended: tare resume %s", n, id)}
	case runErr != nil:
		return runErr
	default:
		return outcome(stored)
	}
}

// interruption says that a run was interrupted, and whatever else went wrong.
func interruption(err error) error {
	if errors.Is(err, run.ErrInterrupted) {
		return err
	}
	return fmt.Errorf("%w: %w", run.ErrInterrupted, err)
}

// concludeFinished is for a run that is stored whole although something went
// wrong after it. That an engine died is known from its trials: what it keeps
// is told beside the result.
func (a *app) concludeFinished(r *bench.Run, err error) error {
	_, hint := classify(err)
	if failed := outcome(r); errors.Is(err, errLeftBehind) && failed != nil {
		a.notice("%s\n  → %s", printable(err.Error()), hint)
		return failed
	}
	return &hintError{fmt.Errorf("run %s is stored: %w", r.Header.ID, err), hint}
}

func failedTrials(r *bench.Run) int {
	n := 0
	for _, s := range r.Samples {
		if s.Outcome != bench.OK && s.Outcome != bench.Unsupported {
			n++
		}
	}
	return n
}

// output is where the records of a run go as well.
type output struct {
	w    io.Writer // nil for nowhere
	file *os.File  // nil unless w is a file of its own
}

func (a *app) openOutput(name string) (output, error) {
	switch name {
	case "":
		return output{}, nil
	case "-":
		return output{w: a.stdout}, nil
	}
	f, err := createFile(name)
	if err != nil {
		return output{}, err
	}
	return output{&result{Writer: f, what: "--output"}, f}, nil
}

// create begins a run in the store and in the output.
func (o output) create(ctx context.Context, s bench.Store, h bench.Header) (bench.RunWriter, error) {
	if o.w == nil {
		return s.Create(ctx, h)
	}
	second, err := record.NewWriter(o.w, h)
	if err != nil {
		return nil, err
	}
	first, err := s.Create(ctx, h)
	return bothWriters{first, second}, err
}

func (o output) close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

// discard removes the output of a run that did not begin.
func (o output) discard() error {
	if o.file == nil {
		return nil
	}
	return errors.Join(o.file.Close(), removeFile(o.file.Name()))
}

// bothWriters appends to two places. The first is the one that counts: the
// second never has what it lacks.
type bothWriters struct{ first, second bench.RunWriter }

func (b bothWriters) Append(ctx context.Context, s bench.Sample) error {
	if err := b.first.Append(ctx, s); err != nil {
		return err
	}
	return b.second.Append(ctx, s)
}

func (b bothWriters) Finish(ctx context.Context, e bench.End) error {
	if err := b.first.Finish(ctx, e); err != nil {
		return err
	}
	return b.second.Finish(ctx, e)
}

func (b bothWriters) Close() error { return errors.Join(b.first.Close(), b.second.Close()) }

// randomSeed draws the seed of a run. It is short enough to be typed, and for
// every program that reads JSON numbers as doubles.
func randomSeed() uint64 { return rand.Uint64N(1_000_000) }

// engines returns the engines that the plan's cells use, by name.
func (p *planned) engines() map[string]bench.Engine {
	out := map[string]bench.Engine{}
	for _, e := range p.used() {
		out[e.instance.Name] = e.engine
	}
	return out
}

// clientName is the engine of load generators. No cell can name it.
const clientName = "load generator"

// client makes the engine of load generators.
func (p *planned) client() bench.Engine {
	return native.New(native.Config{Name: clientName, Run: p.site.run, Dir: p.site.dir, Images: p.site.images})
}

// used lists the probed engines that the plan's cells name.
func (p *planned) used() []probed {
	wanted := map[string]bool{}
	for _, c := range p.plan.Cells {
		wanted[c.Engine] = true
	}
	var out []probed
	for _, e := range p.probed {
		if wanted[e.instance.Name] {
			out = append(out, e)
		}
	}
	return out
}

// usable reports why an engine of the plan cannot be used here.
func (p *planned) usable() error {
	var errs []error
	for _, e := range p.used() {
		if err := e.err; err != nil {
			errs = append(errs, fmt.Errorf("engine %s: %w", e.instance.Name, err))
		}
	}
	if errs == nil {
		return nil
	}
	var usable []string
	for _, e := range p.probed {
		if e.err == nil {
			usable = append(usable, e.instance.Name)
		}
	}
	return &hintError{errors.Join(errs...), "usable here: --engine " + strings.Join(usable, ",") + "; 'tare doctor' says more"}
}

// instancesFile keeps the engines of a run for 'tare clean'.
const instancesFile = "engines.json"
