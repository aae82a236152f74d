package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// lifecycleRun is the state of one container on its way through the sequence.
type lifecycleRun struct {
	clock       bench.Clock
	engine      bench.Engine
	spec        bench.Spec
	sequence    sequence
	argv        []string // of exec
	grace       time.Duration
	marks       bool // the process inside marks its own first and last instruction
	listens     bool // the output is read
	exitedEarly bool // the process had already ended before stop or kill
	cgroups     func() (*cgroup.Hierarchy, error)
	// attest checks what was applied; nil = it is not read back.
	attest func(want bench.Spec, got bench.Applied) error

	container    bench.Container // nil before it is created and after it is removed
	sandbox      bench.Sandbox   // nil without one
	out, errOut  output
	createdAfter time.Duration              // otherTime until the container was created
	otherTime    time.Duration              // in all operations except start and wait
	stages       []bench.Stage              // of which the time to the first instruction is made
	later        []bench.Stage              // the operations after the start, each of which is a metric
	opTimes      map[string][]time.Duration // by operation, except start and wait
	started      bench.Span
	exited       time.Duration // when the engine reported the exit
	first, last  time.Duration

	values map[string]float64 // values by metric
	notes  []string           // of the sample, even if the life failed
}

// newLifecycleRun reads the options of a task. Its error wraps bench.ErrUnsupported if the
// engine does not support them.
func newLifecycleRun(ctx context.Context, t bench.Task) (*lifecycleRun, error) {
	s, err := parseSequence(t.Params["operations"])
	if err != nil {
		return nil, err
	}
	grace, err := parseGrace(t.Params["grace"])
	if err != nil {
		return nil, err
	}
	l := &lifecycleRun{
		engine: t.Engine, spec: t.Spec, sequence: s, grace: grace, marks: runsAgent(t.Spec), values: map[string]float64{},
	}
	if l.argv = strings.Split(t.Params["exec"], ","); t.Params["exec"] == "" {
		l.argv = []string{agent.Path, "exit", "0"}
		if s.has(Exec) && t.Spec.Image != "" && t.Spec.Image != bench.AgentImage {
			return nil, errExec
		}
	}
	if s.holds() {
		l.spec = holdSpec(l.spec)
	}
	if l.marks && s.holds() && s.has(Wait) {
		return nil, errWait
	}
	return l, s.check(ctx, t.Engine)
}

// run does every operation, and then computes the metrics that span several.
func (l *lifecycleRun) run(ctx context.Context) error {
	defer l.removeLeft()
	for _, o := range l.sequence {
		if err := o.do(l, ctx); err != nil {
			return err
		}
	}
	return l.report()
}

// timed does an operation and adds its time to spent. If the sequence has the operation
// more than once, its metric is the mean.
func (l *lifecycleRun) timed(name string, op func() error) error {
	span, err := l.clock.Step(name, op)
	if err != nil {
		return err
	}
	l.otherTime += span.Duration()
	stage := bench.Stage{Name: name, Span: span}
	if l.started == (bench.Span{}) {
		l.stages = append(l.stages, stage)
	} else {
		l.later = append(l.later, stage)
	}
	if l.opTimes == nil {
		l.opTimes = map[string][]time.Duration{}
	}
	l.opTimes[name] = append(l.opTimes[name], span.Duration())
	return nil
}

func (l *lifecycleRun) create(ctx context.Context) error {
	make := l.engine.Create
	if boxer, ok := bench.As[bench.Sandboxer](l.engine); ok {
		err := l.timed(Sandbox, func() (err error) {
			l.sandbox, err = boxer.Sandbox(ctx, l.spec)
			return err
		})
		if err != nil {
			return err
		}
		make = func(ctx context.Context, _ bench.Spec) (bench.Container, error) { return l.sandbox.Create(ctx) }
	}
	err := l.timed(Create, func() (err error) {
		l.container, err = make(ctx, l.spec)
		return err
	})
	l.createdAfter = l.otherTime
	if err != nil {
		return err
	}
	return l.inspect(ctx)
}

// inspect does the untimed work between create and start: it reads back what was applied,
// and attaches to the output.
func (l *lifecycleRun) inspect(ctx context.Context) error {
	if l.attest != nil {
		_, err := l.clock.Step("inspect", func() error {
			applied, err := l.container.Inspect(ctx)
			if err != nil {
				return err
			}
			return l.attest(l.spec, applied)
		})
		if err != nil {
			return err
		}
	}
	if !l.listens {
		return nil
	}
	l.out.open(l.clock.Now)
	_, err := l.clock.Step("attach", func() error { return l.container.Attach(ctx, &l.out, &l.errOut) })
	return err
}

// start returns when the container runs. If the process inside stays and says when it is
// ready for the next operation, start also waits for that, untimed.
func (l *lifecycleRun) start(ctx context.Context) (err error) {
	l.started, err = l.clock.Step(Start, func() error { return l.container.Start(ctx) })
	if err != nil {
		return err
	}
	l.values[Start] = l.started.Duration().Seconds()
	if !l.awaitsReady() {
		return nil
	}
	_, err = l.clock.Step("ready", func() error { return l.out.line(ctx) })
	return err
}

// awaitsReady reports whether the process inside says when it is ready for the next
// operation: before that, it would ignore SIGTERM.
func (l *lifecycleRun) awaitsReady() bool { return l.marks && l.listens && l.sequence.holds() }

// wait waits for a process that ends by itself.
func (l *lifecycleRun) wait(ctx context.Context) error {
	var exit bench.Exit
	span, err := l.clock.Step(Wait, func() (err error) {
		exit, err = l.container.Wait(ctx)
		return err
	})
	if err != nil {
		return err
	}
	l.exited = span.End
	if exit != (bench.Exit{}) {
		return fmt.Errorf("the process inside ended with %s%s", exit, l.errOut.firstLineQuoted())
	}
	l.recordCgroup(ctx)
	return nil
}

// by is an operation that is one call of an engine which can do it.
func by[E any](
	name string, do func(e E, ctx context.Context, c bench.Container) error,
) func(*lifecycleRun, context.Context) error {
	return func(l *lifecycleRun, ctx context.Context) error {
		e, _ := bench.As[E](l.engine)
		return l.timed(name, func() error { return do(e, ctx, l.container) })
	}
}

func (l *lifecycleRun) exec(ctx context.Context) error {
	e, _ := bench.As[bench.Execer](l.engine)
	var exit bench.Exit
	err := l.timed(Exec, func() (err error) {
		exit, err = e.Exec(ctx, l.container, l.argv, nil, nil)
		return err
	})
	if err == nil && exit != (bench.Exit{}) {
		return fmt.Errorf("exec: %s ended with %s", l.argv[0], exit)
	}
	return err
}

// ignoredSignal is a signal that every process ignores by default.
const ignoredSignal = syscall.SIGWINCH

func (l *lifecycleRun) signal(ctx context.Context) error {
	e, _ := bench.As[bench.Signaler](l.engine)
	return l.timed(Signal, func() error { return e.Signal(ctx, l.container, ignoredSignal) })
}

func (l *lifecycleRun) kill(ctx context.Context) error {
	e, _ := bench.As[bench.Signaler](l.engine)
	return l.awaitExit(Kill, func() error {
		if err := e.Signal(ctx, l.container, syscall.SIGKILL); err != nil {
			return l.unlessExited(ctx, err)
		}
		exit, err := l.container.Wait(ctx)
		if err == nil && exit.Code != killed {
			return errEnded
		}
		return err
	})
}

// stop stops the container with the engine's own stop or with SIGTERM. A process that
// has to be killed has not stopped: that is an error, and never a duration.
func (l *lifecycleRun) stop(ctx context.Context) error {
	early, err := l.hasExited(ctx)
	if err != nil {
		return err
	}
	stopper, ok := bench.As[bench.Stopper](l.engine)
	return l.awaitExit(Stop, func() error {
		if early {
			return errEnded
		}
		if !ok {
			return l.terminate(ctx)
		}
		if err := stopper.Stop(ctx, l.container, l.grace); err != nil {
			return l.unlessExited(ctx, err)
		}
		exit, err := l.container.Wait(ctx)
		if err == nil && exit.Code == killed {
			return l.checkSignals()
		}
		return err
	})
}

// terminate is stop for engines that have only signals.
func (l *lifecycleRun) terminate(ctx context.Context) error {
	e, _ := bench.As[bench.Signaler](l.engine)
	if err := e.Signal(ctx, l.container, syscall.SIGTERM); err != nil {
		return l.unlessExited(ctx, err)
	}
	patient, cancel := context.WithTimeout(ctx, l.grace)
	defer cancel()
	_, err := l.container.Wait(patient)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err := e.Signal(ctx, l.container, syscall.SIGKILL); err != nil {
		return err
	}
	if _, err := l.container.Wait(ctx); err != nil {
		return err
	}
	return l.checkSignals()
}

func (l *lifecycleRun) checkSignals() error {
	return fmt.Errorf("the first process ignored SIGTERM for %v and had to be killed", l.grace)
}

func (l *lifecycleRun) remove(ctx context.Context) error {
	err := l.timed(Remove, func() error { return l.container.Remove(ctx) })
	if err != nil {
		return err
	}
	if v, ok := bench.As[bench.Verifier](l.engine); ok {
		if err := v.Gone(ctx, l.container); err != nil {
			return &bench.OpError{Op: Remove, Err: err}
		}
	}
	l.container = nil
	if l.sandbox == nil {
		return nil
	}
	if err := l.timed(StopSandbox, func() error { return l.sandbox.Stop(ctx) }); err != nil {
		return err
	}
	err = l.timed(RemoveSandbox, func() error { return l.sandbox.Remove(ctx) })
	if err == nil {
		l.sandbox = nil
	}
	return err
}

// removeLeft removes the container and the sandbox if the life ended early.
func (l *lifecycleRun) removeLeft() {
	if c := l.container; c != nil {
		l.clock.Cleanup(func(ctx context.Context) error { return bench.Dispose(ctx, l.engine, c) })
	}
	if s := l.sandbox; s != nil {
		l.clock.Cleanup(s.Remove)
	}
}

// reportStages reports of which stages the metrics that can be traced are made. An operation that the sequence has
// several times has none: its metric is a mean.
func (l *lifecycleRun) reportStages(to bench.Recorder) {
	if _, ok := l.values[First]; ok {
		to.Stages(First, l.stages)
	}
	for _, s := range l.later {
		if len(l.opTimes[s.Name]) == 1 {
			to.Stages(s.Name, []bench.Stage{s})
		}
	}
}

// report computes the metrics that span several calls.
func (l *lifecycleRun) report() error {
	total := l.otherTime + l.started.Duration()
	if l.exited != 0 {
		total = l.otherTime + l.exited - l.started.Begin
	}
	if !l.exitedEarly { // otherwise an operation is missing in the sum
		l.values[Total] = total.Seconds()
	}
	for name, all := range l.opTimes {
		var sum time.Duration
		for _, d := range all {
			sum += d
		}
		l.values[name] = sum.Seconds() / float64(len(all))
	}
	if !l.sequence.has(Start) || !l.listens {
		return nil
	}
	if err := l.mark(); err != nil {
		return err
	}
	if l.exited != 0 {
		end := l.started.End
		if l.marks {
			end = l.last
		}
		l.values[Exit] = (l.exited - end).Seconds()
	}
	return nil
}
