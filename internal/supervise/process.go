// Package supervise supervises one container, or plain process: what bears a load, or what
// makes one. It is started, listened to, counted and removed, and belongs to nobody's
// trial: a workload starts one in each trial, or one in Setup that its Fixture keeps. It
// times nothing.
//
//	p, err := supervise.Start(ctx, t.Engine, spec, m, "server") // m is the trial's Meter
//	…
//	defer m.Cleanup(p.Remove)
//
// What the kernel counted for it is told by Count, once its loads have reported, and
// becomes metrics by Record; Counters declares these:
//
//	func (w workload) Metrics() []bench.Metric { return append(own(), supervise.Counters()...) }
//	…
//	reports, err := p.Reports(ctx, 1)
//	…
//	supervise.Record(m, p.Count(ctx))
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
	"github.com/tare-bench/tare/internal/load"
)

// ErrNotReady is wrapped by the error of a service that was still not ready at the end
// of all the time that it had.
var ErrNotReady = errors.New("not ready in time")

// A Process is one container that has been started.
type Process struct {
	role      string
	engine    bench.Engine
	calls     bench.CallCounter // nil where system calls are not counted
	container bench.Container
	leave     context.CancelCauseFunc // ends what the engine does for it, such as copying its output
	out, err  output
	applied   bench.Applied
	dir       string // that bench.DataDir is
	path      []string
	created   bench.Span
	started   bench.Span

	surroundings *surroundings
	first        proc.Process // inside; zero until it was looked for
	relays       []int        // processes that pass its packets on
	last         Counts       // when it was last looked at
	turned       Counts       // at the last turn
}

// Start makes and starts a container for the named role, such as "server". Where
// the engine keeps data in a directory of another name, arguments get that one
// in place of bench.DataDir. What the engine applied is held to spec.
//
// The clock, a trial's or an Outside, is that of the start, and not kept. Nor is ctx:
// once Start has returned, the process is there until Remove. If Start fails, nothing is
// left behind.
func Start(ctx context.Context, e bench.Engine, spec bench.Spec, c bench.Clock, role string) (*Process, error) {
	return StartHeard(ctx, e, spec, c, role, nil)
}

// StartHeard is Start, of a process whose standard output and error are also told
// to ear as they come, each by itself; its Write must not fail and not block. Nil is
// nobody.
func StartHeard(
	ctx context.Context, e bench.Engine, spec bench.Spec, c bench.Clock, role string, ear func() io.Writer,
) (*Process, error) {
	p := &Process{role: role, engine: e, surroundings: look(), last: nothing()}
	p.calls, _ = bench.As[bench.CallCounter](e)
	p.out.open(load.MaxReport)
	p.err.open(maxErr)
	if err := p.place(&spec); err != nil {
		return nil, p.named(err)
	}
	living, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	p.leave = leave
	defer context.AfterFunc(ctx, func() { leave(context.Cause(ctx)) })()
	out, errs := p.writers(ear)
	for _, step := range []struct {
		name string
		took *bench.Span // nil for what is of no interest
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

// writers are where the process's output goes.
func (p *Process) writers(ear func() io.Writer) (stdout, stderr io.Writer) {
	if ear == nil {
		return &p.out, &p.err
	}
	return io.MultiWriter(&p.out, ear()), io.MultiWriter(&p.err, ear())
}

// Spans are how long the calls of create and start took.
func (p *Process) Spans() (create, start bench.Span) { return p.created, p.started }

// place puts the directory that the data will be in into the arguments.
func (p *Process) place(spec *bench.Spec) (err error) {
	p.dir = bench.DataDir
	if !slices.ContainsFunc(spec.Argv, func(arg string) bool { return strings.Contains(arg, bench.DataDir) }) {
		return nil
	}
	p.dir, err = DataDir(p.engine, *spec)
	spec.Argv = Renamed(spec.Argv, bench.DataDir, p.dir)
	return err
}

// DataDir is where the next container that an engine makes of spec has its data.
func DataDir(e bench.Engine, spec bench.Spec) (string, error) {
	if k, ok := bench.As[bench.DataKeeper](e); ok {
		return k.DataDir(spec)
	}
	return bench.DataDir, nil
}

// Renamed returns arguments with another name for the data's directory. It may
// be another one in each trial, and is no difference between them.
func Renamed(argv []string, from, to string) []string {
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
	if p.role == "" {
		return err
	}
	return fmt.Errorf("%s: %w", p.role, err)
}

// Container is what the engine made, for its capabilities.
func (p *Process) Container() bench.Container { return p.container }

// Applied is what the engine applied, read back once more: of a container that
// runs, some engines know from the kernel what they could only say before. Its
// arguments and its path are as they were given to Start and Reached. Call it when
// nothing is measured; it is for the caller to attest.
func (p *Process) Applied(ctx context.Context, c bench.Clock) bench.Applied {
	_, _ = c.Step("inspect", func() error { // where it fails the process has ended, and what was known before stands
		again, err := p.container.Inspect(ctx)
		if err == nil {
			p.applied = again
		}
		return err
	})
	got := p.applied
	if p.dir != bench.DataDir {
		got.Argv = Renamed(got.Argv, p.dir, bench.DataDir)
	}
	if p.path != nil {
		got.Path = p.path
	}
	return got
}

// Reached keeps the path that packets take to the container, for Applied.
func (p *Process) Reached(path []string) { p.path = path }

// Lines waits until the process inside has printed n whole lines to its
// standard output, and returns all that it printed so far. A process that ends
// before has failed.
func (p *Process) Lines(ctx context.Context, n int) ([]byte, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	ended := make(chan struct{})
	go func() { err = p.ended(waiting); close(ended) }()
	select {
	case <-p.out.after(n):
		cancel()
		<-ended // who waits may write into the output
		return p.out.text(), p.out.overflow(p.named(errTooMuch))
	case <-ended:
		// It may have said all that was asked for, and then ended.
		if text := p.out.text(); lines(text) >= n {
			return text, p.out.overflow(p.named(errTooMuch))
		}
		return nil, p.named(err)
	}
}

var errTooMuch = errors.New("the process inside printed more than is read")

// While does op for as long as the process inside is there. Should it end first,
// op's context ends, and the error says how the process has ended.
func (p *Process) While(ctx context.Context, op func(ctx context.Context) error) error {
	doing, cancel := context.WithCancel(ctx)
	defer cancel()
	var end error // of the process, unless it was there until op was done
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

// ended waits for the end of the process and says how it was.
func (p *Process) ended(ctx context.Context) error {
	exit, err := p.container.Wait(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("the process inside ended with %s%s", exit, p.err.said())
}

// Output waits for the end of the process inside, which must succeed, and
// returns what it printed to its standard output, of one that failed too.
func (p *Process) Output(ctx context.Context) ([]byte, error) {
	stop := p.watch(ctx)
	exit, err := p.container.Wait(ctx)
	stop()
	if err != nil {
		return nil, p.named(err)
	}
	if exit != (bench.Exit{}) {
		return p.out.text(), p.named(fmt.Errorf("the process inside ended with %s%s", exit, p.err.said()))
	}
	return p.out.text(), p.out.overflow(p.named(errTooMuch))
}

// Reports waits until n loads have reported. The process inside may stay.
func (p *Process) Reports(ctx context.Context, n int) ([]*load.Report, error) {
	text, err := p.Lines(ctx, n)
	if err != nil {
		return nil, err
	}
	all, err := load.Parse(whole(text)) // the next load may be about to report
	if err != nil {
		return nil, p.named(err)
	}
	return all, nil
}

// Remove removes the container. In a trial it is for the Clock's Cleanup, as is that of
// another process; one that a Fixture keeps is removed with that. Twice is fine.
func (p *Process) Remove(ctx context.Context) error {
	defer p.leave(nil)
	if p.container == nil {
		return nil
	}
	return bench.Dispose(ctx, p.engine, p.container)
}
