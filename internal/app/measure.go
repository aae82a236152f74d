package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/schedule"
)

// Options say how a run is measured. Every field may be left out.
type Options struct {
	// Name is what the run is called, if anything: see CheckName.
	Name string
	// Create begins the run where it is kept, such as in a second place too; nil = in
	// the store alone. See Tee.
	Create func(ctx context.Context, s bench.Store, h bench.Header) (bench.RunWriter, error)
	// Interrupt ends the run, once closed, after the trial in flight. Ending the
	// context as well ends that trial too. Nil never interrupts.
	Interrupt <-chan struct{}

	joint   *bench.Joint                                                                       // of the run
	barrier func(ctx context.Context, block int, r bench.StopReason) (bench.StopReason, error) // see run.Options
}

// Measure runs a plan to its end and stores it. It returns the run's ID, which is empty
// where the error has kept the run from beginning: then nothing is stored. How a run
// that has begun ended, Conclude says. The App needs a state directory.
func (a *App) Measure(ctx context.Context, s bench.Store, p *Planned, o Options) (id string, err error) {
	if p.engineSite.dir != a.runDir(p.engineSite.run) {
		return "", errors.New("the plan was made for another state directory")
	}
	block, outlook := ExpectedBlock(ctx, s, p.Plan), EarlierOutlook(ctx, s, p.Plan)
	machine, err := openMachine()
	if err != nil {
		return "", err
	}
	notes := slices.Concat(machine.countCalls(p), machine.openTracer(ctx, p))
	defer machine.Close()
	// What can fail before the first trial is done before the run exists.
	dir, err := a.newRunDir(p.engineSite.run, p.usedInstances())
	if err != nil {
		return "", err
	}
	header := a.header(ctx, p, machine)
	others := a.othersUnderWay(dir.id)
	beside := disturbers(others)
	header.Warnings = slices.Concat(header.Warnings, planted(&p.Plan), notes, beside)
	header.Name, header.Joint = o.Name, o.joint
	w, err := begin(ctx, s, p, &header, dir.path, o)
	if err != nil {
		return "", errors.Join(err, dir.remove())
	}
	err = a.execute(ctx, dir, Session{
		Header: header, Planned: p, Block: block, Beside: beside, Outlook: outlook, Look: 1,
		told: others, writer: w, machine: machine, interrupt: o.Interrupt, barrier: o.barrier,
	})
	return header.ID, errors.Join(err, w.Close())
}

// begin looks for the images, and begins the run in the store. If that fails it closes the
// engines, because it may have asked them for images.
func begin(
	ctx context.Context, s bench.Store, p *Planned, h *bench.Header, dir string, o Options,
) (w bench.RunWriter, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, CloseEngines(ctx, p.engines()))
		}
	}()
	same, err := p.checkImages(ctx)
	if err == nil {
		err = p.refusedCells(ctx, dir)
	}
	if err != nil {
		return nil, err
	}
	h.Warnings = slices.Concat(h.Warnings, same)
	if o.Create != nil {
		w, err = o.Create(ctx, s, *h)
	} else {
		w, err = s.Create(ctx, *h)
	}
	if err != nil {
		return nil, named(err)
	}
	release, err := Hold(ctx, s, h.ID)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return held{w, release}, nil
}

// header is everything about a run that is known before its first trial.
func (a *App) header(ctx context.Context, p *Planned, m machine) bench.Header {
	facts := host.Facts(fsRoot)
	h := bench.Header{
		ID: p.engineSite.run, Tool: a.config.Version, Began: a.config.Now().UTC(),
		Plan:     p.Plan,
		Schedule: schedule.Blocks(p.Plan),
		Metrics:  append(p.Workload.Metrics(), m.Metrics()...),
		Host:     facts,
		Warnings: a.hostWarnings(ctx, p, facts),
	}
	for _, e := range p.Used() {
		h.Engines = append(h.Engines, e.Info)
	}
	return h
}

// hostWarnings are what disturbs measurements on this machine, and on the others of a plan, at the beginning of a
// sitting.
func (a *App) hostWarnings(ctx context.Context, p *Planned, facts bench.HostFacts) []bench.Warning {
	here := host.Checks(ctx, host.Examination{Root: fsRoot, Facts: facts, Dirs: []string{existing(a.state)}})
	return append(here, a.remoteWarnings(ctx, p)...)
}

// OmittedEngines says which engines an experiment that takes only a few did not take, and how to
// ask for them; it is empty where it took all.
func OmittedEngines(p bench.Plan) string {
	if len(p.LeftOut) == 0 {
		return ""
	}
	var in []string
	for _, c := range p.Cells {
		if !slices.Contains(in, c.Engine) {
			in = append(in, c.Engine)
		}
	}
	return fmt.Sprintf("not included: %s; --engine %s,%s adds one, --engine auto includes all",
		strings.Join(p.LeftOut, ", "), strings.Join(in, ","), p.LeftOut[0])
}

// Tee appends to two places. The first is the one that counts: the second never has
// what it lacks.
func Tee(first, second bench.RunWriter) bench.RunWriter { return teeWriter{first, second} }

type teeWriter struct{ first, second bench.RunWriter }

func (b teeWriter) Append(ctx context.Context, s bench.Sample) error {
	if err := b.first.Append(ctx, s); err != nil {
		return err
	}
	return b.second.Append(ctx, s)
}

func (b teeWriter) Finish(ctx context.Context, e bench.End) error {
	if err := b.first.Finish(ctx, e); err != nil {
		return err
	}
	return b.second.Finish(ctx, e)
}

func (b teeWriter) Close() error { return errors.Join(b.first.Close(), b.second.Close()) }
