// Package lifecycle has the workloads that take containers through their lifecycle:
// one at a time (lifecycle), or many at once (throughput).
package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/supervise"
)

// The names of the metrics of the usual sequence, which are also names of operations.
// The other operations are in operations.go.
const (
	First   = "first_instruction"
	Total   = "total"
	Create  = "create"
	Start   = "start"
	Exit    = "exit"
	Remove  = "remove"
	Sandbox = "sandbox"
	// StopSandbox and RemoveSandbox follow Remove if there is a sandbox.
	StopSandbox   = "stop_sandbox"
	RemoveSandbox = "remove_sandbox"
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
	return "One container from create to remove: the time to its first instruction, and the time of each operation."
}

// StartTimes implements bench.Starter.
func (workload) StartTimes() []string { return []string{First, Total, Start} }

func (workload) Metrics() []bench.Metric {
	metrics := []bench.Metric{
		secondsMetric(First, "time to first instruction", bench.Primary, bench.Ratio,
			"From the call that creates the container (or its sandbox) to the first instruction of the process inside, "+
				"by that process's own mark, without the time between create and start."),
		secondsMetric(Total, "full lifecycle", bench.Primary, bench.Ratio,
			"Sum of all operations; if the container ends by itself, with the time from the call of start "+
				"until the engine reports the exit."),
	}
	metrics = append(metrics, operationMetrics()...)
	return append(append(metrics, cgroupMetrics()...), supervise.MeasuredMetric(), supervise.TurnsMetric())
}

func secondsMetric(name, title string, role bench.Role, scale bench.Scale, doc string) bench.Metric {
	return bench.Metric{Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: scale, Doc: doc}
}

// operationMetrics returns the detail metrics: one for each operation.
func operationMetrics() []bench.Metric {
	var all []bench.Metric
	add := func(name, title, doc string) {
		all = append(all, secondsMetric(name, title, bench.Detail, bench.Difference, doc))
	}
	add(Sandbox, "sandbox", "From the call that makes the sandbox (pod) to its return.")
	add(Create, "create", "From the call that creates the container to its return.")
	add(Start, "start", "From the call that starts the container to its return.")
	add(Exit, "exit",
		"From the last instruction of the process inside, by its own mark, until the engine reports its exit.")
	add(Pause, "pause", "From the call that pauses the container to its return.")
	add(Resume, "resume", "From the call that resumes the paused container to its return.")
	add(Exec, "exec", "From the call that runs another program inside until the engine reports its exit.")
	add(Signal, "signal", "From the call that sends a signal to the first process, which ignores it, to its return.")
	add(Stop, "stop",
		"From the call that stops the container, or sends SIGTERM if the engine has no stop, until the engine "+
			"reports that it has stopped.")
	add(Kill, "kill", "From the call that sends SIGKILL until the engine reports the exit.")
	add(Checkpoint, "checkpoint", "From the call that writes the container to disk to its return.")
	add(Restore, "restore", "From the call that restores the container to its return.")
	add(Remove, "remove", "From the call that removes the container to its return.")
	add(StopSandbox, "stop sandbox", "From the call that stops the sandbox to its return.")
	add(RemoveSandbox, "remove sandbox", "From the call that removes the sandbox to its return.")
	return all
}

// The codes of notes.
const (
	// NoteEndedEarly marks a sample in which the process inside had already ended by
	// itself before stop or kill. That operation has no time.
	NoteEndedEarly = "ended-early"
	// NoteLostContainers marks a sample of many containers, some of which failed. No
	// time includes those.
	NoteLostContainers = "lost-containers"
)

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	return []bench.Note{{
		Code: NoteEndedEarly,
		Text: "the process in some containers of {cells} had already exited before stop or kill was sent, " +
			"so that operation was not timed",
		Advice: "use a program that runs until it is stopped, or use wait instead of stop and kill",
	}}
}

func (workload) Params() []bench.Param {
	return append(lifeParams(), bench.Param{
		Name: "population", Default: "0", Valid: bench.Between(0, maxPopulation),
		Doc: "number of containers of the same kind that already run; they are started before each trial and " +
			"removed after it, untimed",
	}, bench.Param{
		Name: "starts", Default: "1", Valid: bench.Between(1, maxStarts),
		Doc: "number of containers of a trial, one after the other, whose times are summed up by their median; the cells " +
			"of a block take turns, one container each",
	})
}

// maxStarts is the largest number of containers of a trial.
const maxStarts = 1000

// TakesTurns implements bench.TurnTaker: one container is a turn.
func (w workload) TakesTurns(params map[string]string) bool {
	return params["starts"] != "1" && !w.RefusesTurns(params)
}

// RefusesTurns implements bench.TurnRefuser: each cell's trial has a population of its own.
func (workload) RefusesTurns(params map[string]string) bool { return params["population"] != "0" }

// Traceable implements bench.Traceable.
func (workload) Traceable() {}

// Check implements bench.Workload.
func (workload) Check(ctx context.Context, t bench.Task) error {
	_, err := newLifecycleRun(ctx, t)
	return err
}

// Run takes containers through their lifecycle, usually one.
func (w workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	values, notes := map[string][]float64{}, map[string]bool{}
	starts, turning := number(t, "starts"), t.Turns != nil && t.Turns.On()
	if t.Traced {
		starts = 1
	}
	for n := range starts {
		if turning && n > 0 { // the trial has its turn already
			if err := t.Turns.WaitSettled(ctx); err != nil {
				return err
			}
		}
		l, err := newLifecycleRun(ctx, t)
		if err != nil {
			return err
		}
		l.clock, l.attest, l.cgroups, l.listens = m, m.Applied, w.cgroups, true
		err = l.run(ctx)
		for _, code := range l.notes {
			notes[code] = true
		}
		if err != nil {
			noteAll(m, notes)
			return err
		}
		for metric, value := range l.values {
			values[metric] = append(values[metric], value)
		}
		if t.Traced {
			l.reportStages(m)
		}
	}
	noteAll(m, notes)
	m.Record(bench.StateMeasured, sum(values[Total]))
	if turning {
		m.Record(bench.StateTurns, float64(starts))
	}
	for metric, all := range values {
		slices.Sort(all)
		m.Record(metric, (all[(len(all)-1)/2]+all[len(all)/2])/2)
	}
	return nil
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

func noteAll(to bench.Recorder, codes map[string]bool) {
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		to.Note(code)
	}
}

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	if n := number(t, "population"); n > 0 {
		return &population{task: t, size: n}, nil
	}
	return nil, nil
}

// holdSpec returns spec with a process that stays until it gets SIGTERM, if the process
// inside is tare's own choice.
func holdSpec(spec bench.Spec) bench.Spec {
	if runsAgent(spec) {
		spec.Argv = []string{agent.Path, "mark", "hold"}
	}
	return spec
}

// runsAgent reports whether the process inside is tare's own choice.
func runsAgent(spec bench.Spec) bool {
	return len(spec.Argv) == 0 && (spec.Image == "" || spec.Image == bench.AgentImage)
}

// errWait is the error of a sequence in which a container of tare's own image would
// never end.
var errWait = fmt.Errorf("%w: with these operations, the process of tare's own image does not end by itself: "+
	"use stop or kill instead of wait, or set image or argv", bench.ErrUnsupported)

// errExec is the error of exec in a foreign image without option exec.
var errExec = fmt.Errorf("%w: exec: no program to run in this image: set option exec", bench.ErrUnsupported)
