// Package supervise supervises one container or plain process, such as a server or a
// client: it starts the process, reads its output, counts what it uses, and removes it.
// The process does not belong to a trial: a workload starts one in each trial, or one in
// Setup that its Fixture keeps. The package times nothing.
//
//	p, err := supervise.Start(ctx, t.Engine, spec, m, "server") // m is the trial's Meter
//	…
//	defer m.Cleanup(p.Remove)
//
// Count returns what the kernel counted for the process, once its loads have reported;
// Record turns it into metrics, and Counters declares these:
//
//	func (w workload) Metrics() []bench.Metric { return append(own(), supervise.Counters()...) }
//	…
//	reports, err := p.Reports(ctx, 1)
//	…
//	supervise.Record(m, p.Count(ctx))
//
// A workload that runs a load of the agent needs none of this. It is a Job, here with all of
// the workload's options, and RunTrial starts, reads, counts and removes:
//
//	func (w workload) Check(_ context.Context, t bench.Task) error {
//		return supervise.CheckOwn(w.Name(), t.Spec)
//	}
//
//	func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
//		return supervise.NewJobs(t, supervise.Job{Spec: t.Spec, Load: supervise.LoadOf(disk.Name, t.Params)}), nil
//	}
//
//	func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
//		return supervise.RunTrial(ctx, t, m)
//	}
package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
	"github.com/tare-bench/tare/internal/load"
)

// ErrNotReady is wrapped by the error of a service that was not ready when its time
// was over.
var ErrNotReady = errors.New("not ready in time")

// A Process is one container that has been started.
type Process struct {
	role      string
	engine    bench.Engine
	calls     bench.CallCounter // nil if system calls are not counted
	container bench.Container
	leave     context.CancelCauseFunc // ends the engine's work for it, such as copying its output
	out, err  output
	applied   bench.Applied
	dir       string // the directory that stands for bench.DataDir
	path      []string
	created   bench.Span
	started   bench.Span

	ownEnv    *ownEnv
	first     proc.Process // the first process inside; zero until it was found
	relays    []int        // processes that pass its packets on
	turns     turns        // those that it takes, if any
	last      Counts       // the last reading
	partBegan Counts       // at the last CountNew
}

// Start makes and starts a container for the named role, such as "server". If the
// engine keeps data in another directory, arguments get that one in place of
// bench.DataDir. Start fails if the engine did not apply spec.
//
// The clock is a trial's or a SetupClock; it times the start and is not kept. Neither is
// ctx: once Start has returned, the process stays until Remove. If Start fails, nothing
// is left behind.
func Start(ctx context.Context, e bench.Engine, spec bench.Spec, c bench.Clock, role string) (*Process, error) {
	return StartListening(ctx, e, spec, c, role, nil)
}

// StartListening is Start for a process whose standard output and error are also written to
// a listener: logWriter returns one writer for each of them, whose Write must not fail or
// block. A nil logWriter means none.
func StartListening(
	ctx context.Context, e bench.Engine, spec bench.Spec, c bench.Clock, role string, logWriter func() io.Writer,
) (*Process, error) {
	p := &Process{role: role, engine: e, ownEnv: readOwnEnv(), last: unknownCounts()}
	p.calls, _ = bench.As[bench.CallCounter](e)
	p.out.open(load.MaxReport)
	p.err.open(maxErr)
	if err := p.place(&spec); err != nil {
		return nil, p.named(err)
	}
	living, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	p.leave = leave
	defer context.AfterFunc(ctx, func() { leave(context.Cause(ctx)) })()
	out, errs := p.writers(logWriter)
	for _, step := range []struct {
		name string
		took *bench.Span // nil if nobody needs it
		do   func() error
	}{
		{"create", &p.created, func() (err error) { p.container, err = e.Create(ctx, spec); return err }},
		{"inspect", nil, func() error { return p.inspect(ctx, spec) }},
		{"attach", nil, func() error { return p.container.Attach(living, out, errs) }},
		{"start", &p.started, func() error { return p.container.Start(living) }},
	} {
		span, err := c.Step(step.name, step.do)
		if err != nil {
			c.Cleanup(p.Remove)
			return nil, p.named(err)
		}
		if step.took != nil {
			*step.took = span
		}
	}
	return p, nil
}

// writers returns the writers for the process's output.
func (p *Process) writers(logWriter func() io.Writer) (stdout, stderr io.Writer) {
	if logWriter == nil {
		return &p.out, &p.err
	}
	return io.MultiWriter(&p.out, logWriter()), io.MultiWriter(&p.err, logWriter())
}

// Spans returns when the engine's create and start began and ended.
func (p *Process) Spans() (create, start bench.Span) { return p.created, p.started }

// place puts the actual data directory into the arguments.
func (p *Process) place(spec *bench.Spec) (err error) {
	p.dir = bench.DataDir
	if !slices.ContainsFunc(spec.Argv, func(arg string) bool { return strings.Contains(arg, bench.DataDir) }) {
		return nil
	}
	p.dir, err = DataDir(p.engine, *spec)
	spec.Argv = ReplaceDir(spec.Argv, bench.DataDir, p.dir)
	return err
}

// DataDir returns the data directory of the next container that an engine makes of spec.
func DataDir(e bench.Engine, spec bench.Spec) (string, error) {
	if k, ok := bench.As[bench.DataKeeper](e); ok {
		return k.DataDir(spec)
	}
	return bench.DataDir, nil
}

// ReplaceDir returns arguments with another name for the data directory. The name may
// change from trial to trial, which is no difference between trials.
func ReplaceDir(argv []string, from, to string) []string {
	out := make([]string, len(argv))
	for i, arg := range argv {
		out[i] = strings.ReplaceAll(arg, from, to)
	}
	return out
}

func (p *Process) inspect(ctx context.Context, spec bench.Spec) (err error) {
	if p.applied, err = p.container.Inspect(ctx); err != nil {
		return err
	}
	return bench.Attest(spec, p.applied)
}

func (p *Process) named(err error) error {
	if p.role == "" || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", p.role, err)
}

// Container returns the engine's container, for calls of the engine's capabilities.
func (p *Process) Container() bench.Container { return p.container }

// Applied reads back again what the engine applied: once the container runs, some
// engines read from the kernel what they could only claim before. Arguments and path
// are those given to Start and Reached. Call it when nothing is measured; the caller
// attests the result.
func (p *Process) Applied(ctx context.Context, c bench.Clock) bench.Applied {
	_, _ = c.Step("inspect", func() error { // fails if the process has ended; then the first reading stands
		again, err := p.container.Inspect(ctx)
		if err != nil {
			return err
		}
		p.applied = again
		if p.find(ctx) {
			p.applied.Process = readback.Facts(p.first.PID)
		}
		return nil
	})
	got := p.applied
	if p.dir != bench.DataDir {
		got.Argv = ReplaceDir(got.Argv, p.dir, bench.DataDir)
	}
	if p.path != nil {
		got.Path = p.path
	}
	return got
}

// SetPath sets the path of packets to the container, for Applied.
func (p *Process) SetPath(path []string) { p.path = path }

// AwaitLines waits until the process inside has printed n whole lines to its standard
// output, and returns all of its output so far. It fails if the process ends before.
func (p *Process) AwaitLines(ctx context.Context, n int) ([]byte, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	ended := make(chan struct{})
	go func() { err = p.ended(waiting); close(ended) }()
	select {
	case <-p.out.awaitLines(n):
		cancel()
		<-ended // until then, Wait may still write to the output
		return p.out.text(), p.out.overflow(p.named(errTooMuch))
	case <-ended:
		// It may have printed all the lines, and then ended.
		if text := p.out.text(); lines(text) >= n {
			return text, p.out.overflow(p.named(errTooMuch))
		}
		return nil, p.named(err)
	}
}

var errTooMuch = errors.New("the process inside printed more output than tare reads")

// WhileRunning runs op while the process inside is alive. If the process ends first, op's
// context ends, and the error says how the process ended.
func (p *Process) WhileRunning(ctx context.Context, op func(ctx context.Context) error) error {
	doing, cancel := context.WithCancel(ctx)
	defer cancel()
	var end error // how the process ended, if it did before op was done
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := p.ended(doing); doing.Err() == nil {
			end = err
			cancel()
		}
	}()
	err := op(doing)
	cancel()
	<-watched
	if err != nil && end != nil {
		return p.named(end)
	}
	return err
}

// ended waits for the end of the process and returns how it ended, or Wait's error.
func (p *Process) ended(ctx context.Context) error {
	exit, err := p.container.Wait(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("the process inside ended with %s%s", exit, p.err.firstLineQuoted())
}

// Output waits for the end of the process inside and returns its standard output, even
// if the process failed, which is an error.
func (p *Process) Output(ctx context.Context) ([]byte, error) {
	stop := p.watch(ctx)
	exit, err := p.container.Wait(ctx)
	stop()
	if err != nil {
		return nil, p.named(err)
	}
	if exit != (bench.Exit{}) {
		return p.out.text(), p.named(fmt.Errorf("the process inside ended with %s%s", exit, p.err.firstLineQuoted()))
	}
	return p.out.text(), p.out.overflow(p.named(errTooMuch))
}

// Reports waits until n loads have reported. The process inside need not end.
func (p *Process) Reports(ctx context.Context, n int) ([]*load.Report, error) {
	if p.turns.giver != nil {
		err := p.WhileRunning(ctx, func(ctx context.Context) error { return p.named(p.turns.giveUntil(ctx, n)) })
		if err != nil {
			return nil, err
		}
	}
	text, err := p.AwaitLines(ctx, n)
	if err != nil {
		return nil, err
	}
	all, err := load.Parse(wholeLines(text)) // the next load may be about to report
	if err != nil {
		return nil, p.named(err)
	}
	return all, nil
}

// Remove removes the container. A trial calls it with its Clock's Cleanup; a Fixture
// that keeps the process calls it in its own Remove. It may be called twice.
func (p *Process) Remove(ctx context.Context) error {
	defer p.leave(nil)
	p.turns.close()
	if p.container == nil {
		return nil
	}
	return bench.Dispose(ctx, p.engine, p.container)
}
