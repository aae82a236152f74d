// Package lifecycle is the workload that takes one container through its
// life: create, start, first instruction, exit, remove.
package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/cgroup"
)

// The names of the metrics, which are also those of the operations.
const (
	First  = "first_instruction"
	Total  = "total"
	Create = "create"
	Start  = "start"
	Exit   = "exit"
	Remove = "remove"
)

// New returns the workload.
func New() bench.Workload {
	return workload{sync.OnceValues(func() (*cgroup.Hierarchy, error) { return cgroup.Detect("/") })}
}

type workload struct {
	cgroups func() (*cgroup.Hierarchy, error)
}

func (workload) Name() string { return "lifecycle" }

func (workload) Doc() string {
	return "One container from create to remove: how long until its first instruction, and each phase."
}

func (workload) Metrics() []bench.Metric {
	second := func(name, title string, role bench.Role, scale bench.Scale, doc string) bench.Metric {
		return bench.Metric{Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: scale, Doc: doc}
	}
	return append([]bench.Metric{
		second(First, "time to first instruction", bench.Primary, bench.Ratio,
			"From the call that creates the container to the first instruction of the process inside, by that process's own mark; waiting between create and start left out."),
		second(Total, "whole life", bench.Primary, bench.Ratio,
			"Create, from the call of start to the news of the exit, and remove, added up."),
		second(Create, "create", bench.Detail, bench.Difference,
			"From the call that creates the container to its return."),
		second(Start, "start", bench.Detail, bench.Difference,
			"From the call that starts the container to its return."),
		second(Exit, "exit", bench.Detail, bench.Difference,
			"From the last instruction of the process inside, by its own mark, to the moment at which the engine has said that it exited."),
		second(Remove, "remove", bench.Detail, bench.Difference,
			"From the call that removes the exited container to its return."),
	}, cgroupMetrics()...)
}

func (workload) Params() []bench.Param { return nil }

// Check finds nothing to refuse: every engine can do this.
func (workload) Check(bench.Engine) error { return nil }

// Run takes one container through its life.
func (w workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	// Left to itself, the agent's image marks.
	marks := len(t.Spec.Argv) == 0 && (t.Spec.Image == "" || t.Spec.Image == bench.AgentImage)
	l := life{meter: m, engine: t.Engine, spec: t.Spec, marks: marks, cgroups: w.cgroups}
	defer l.leave()
	for _, phase := range []func(context.Context) error{l.create, l.look, l.run, l.remove} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	l.report()
	return nil
}

// life is one container under way.
type life struct {
	meter   bench.Meter
	engine  bench.Engine
	spec    bench.Spec
	marks   bool // the process inside marks its own first and last instruction
	cgroups func() (*cgroup.Hierarchy, error)

	container                      bench.Container
	out                            output
	errOut                         output
	created, started, exited, gone bench.Span
	first, last                    time.Duration
}

func (l *life) create(ctx context.Context) (err error) {
	l.created, err = l.meter.Span(Create, func() (err error) {
		l.container, err = l.engine.Create(ctx, l.spec)
		return err
	})
	return err
}

// look does what lies between create and start and is not timed: it reads
// back what was applied, and attaches to the output.
func (l *life) look(ctx context.Context) error {
	_, err := l.meter.Step("inspect", func() error {
		applied, err := l.container.Inspect(ctx)
		if err != nil {
			return err
		}
		return l.meter.Applied(l.spec, applied)
	})
	if err != nil {
		return err
	}
	l.out.now = l.meter.Now
	_, err = l.meter.Step("attach", func() error { return l.container.Attach(ctx, &l.out, &l.errOut) })
	return err
}

func (l *life) run(ctx context.Context) (err error) {
	l.started, err = l.meter.Span(Start, func() error { return l.container.Start(ctx) })
	if err != nil {
		return err
	}
	var exit bench.Exit
	l.exited, err = l.meter.Step("wait", func() (err error) {
		exit, err = l.container.Wait(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if exit != (bench.Exit{}) {
		return fmt.Errorf("the process inside ended with %s%s", exit, l.errOut.said())
	}
	l.recordCgroup(ctx)
	return l.mark()
}

// mark takes the first and the last instruction from what the process inside
// printed. Its clock is believed if both lie between the call of start and the
// news of the exit; in a sandbox or VM with a clock of its own they do not, and
// then the host's time of the first output is taken for both.
func (l *life) mark() error {
	if !l.marks {
		return nil
	}
	mark, err := agent.ParseMark(l.out.bytes)
	if err != nil {
		return fmt.Errorf("%w%s", err, l.errOut.said())
	}
	l.first, l.last = mark.First, mark.Last
	if l.started.Begin <= mark.First && mark.First <= mark.Last && mark.Last <= l.exited.End {
		return nil
	}
	l.first, l.last = l.out.began, l.out.began
	l.meter.Note(bench.NoteHostClock)
	return nil
}

func (l *life) remove(ctx context.Context) (err error) {
	l.gone, err = l.meter.Span(Remove, func() error { return l.container.Remove(ctx) })
	if err == nil {
		l.container = nil
	}
	return err
}

// leave removes the container of a life that was cut short.
func (l *life) leave() {
	if l.container != nil {
		l.meter.Cleanup(l.container.Remove)
	}
}

// report derives the metrics that span several calls.
func (l *life) report() {
	end := l.started.End
	if l.marks {
		end = l.last
		l.meter.Record(First, (l.created.Duration() + l.first - l.started.Begin).Seconds())
	}
	l.meter.Record(Exit, (l.exited.End - end).Seconds())
	l.meter.Record(Total, (l.created.Duration() + l.exited.End - l.started.Begin + l.gone.Duration()).Seconds())
}
