// Package lifecycle holds the workloads that take containers through their
// life: one at a time (lifecycle), or many at once (throughput).
package lifecycle

import (
	"context"
	"fmt"
	"sync"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// The names of the metrics of the usual sequence, which are also those of the
// operations. Those of the others are in operations.go.
const (
	First   = "first_instruction"
	Total   = "total"
	Create  = "create"
	Start   = "start"
	Exit    = "exit"
	Remove  = "remove"
	Sandbox = "sandbox"
	// StopSandbox and RemoveSandbox follow Remove where there is a sandbox.
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
	return "One container from create to remove: how long until its first instruction, and each operation."
}

func (workload) Metrics() []bench.Metric {
	metrics := []bench.Metric{
		second(First, "time to first instruction", bench.Primary, bench.Ratio,
			"From the call that creates the container (or its sandbox) to the first instruction of the process inside, by that process's own mark; waiting between create and start left out."),
		second(Total, "whole life", bench.Primary, bench.Ratio,
			"All operations added up; where the container ends by itself, the time from the call of start to the news of the exit among them."),
	}
	metrics = append(metrics, operationMetrics()...)
	return append(metrics, cgroupMetrics()...)
}

func second(name, title string, role bench.Role, scale bench.Scale, doc string) bench.Metric {
	return bench.Metric{Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: role, Scale: scale, Doc: doc}
}

// operationMetrics are the details: one for each operation.
func operationMetrics() []bench.Metric {
	var all []bench.Metric
	add := func(name, title, doc string) {
		all = append(all, second(name, title, bench.Detail, bench.Difference, doc))
	}
	add(Sandbox, "sandbox", "From the call that makes the sandbox (pod) to its return.")
	add(Create, "create", "From the call that creates the container to its return.")
	add(Start, "start", "From the call that starts the container to its return.")
	add(Exit, "exit", "From the last instruction of the process inside, by its own mark, to the moment at which the engine has said that it exited.")
	add(Pause, "pause", "From the call that pauses the container to its return.")
	add(Resume, "resume", "From the call that resumes the paused container to its return.")
	add(Exec, "exec", "From the call that runs a further program inside to the news that it has exited.")
	add(Signal, "signal", "From the call that sends a signal to the first process, which ignores it, to its return.")
	add(Stop, "stop", "From the call that stops the container, or sends SIGTERM where the engine has no stop, to the news that it has stopped by itself.")
	add(Kill, "kill", "From the call that sends SIGKILL to the news of the exit.")
	add(Checkpoint, "checkpoint", "From the call that writes the container to disk to its return.")
	add(Restore, "restore", "From the call that restores the container to its return.")
	add(Remove, "remove", "From the call that removes the container to its return.")
	add(StopSandbox, "stop sandbox", "From the call that stops the sandbox to its return.")
	add(RemoveSandbox, "remove sandbox", "From the call that removes the sandbox to its return.")
	return all
}

// The codes of notes.
const (
	// NoteEndedEarly marks a sample in which the process inside had ended by itself
	// before an operation came that ends it. That operation has no time.
	NoteEndedEarly = "ended-early"
	// NoteLostContainers marks a sample of many containers, of which some failed
	// and are in no time.
	NoteLostContainers = "lost-containers"
)

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	return []bench.Note{{
		Code: NoteEndedEarly,
		Text: "the process in some containers of {cells} had ended before stop or kill came: there was " +
			"nothing to end, and it has no time",
		Advice: "give it a program that runs until it is ended, or write wait in place of stop and kill",
	}}
}

func (workload) Params() []bench.Param {
	return append(lifeParams(), bench.Param{
		Name: "population", Default: "0", Valid: between(0, maxPopulation),
		Doc: "how many containers of the same kind run already; they are started before each trial and removed after it, untimed",
	})
}

// Check implements bench.Workload.
func (workload) Check(ctx context.Context, t bench.Task) error {
	_, err := newLife(ctx, t)
	return err
}

// Run takes one container through its life.
func (w workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	l, err := newLife(ctx, t)
	if err != nil {
		return err
	}
	l.clock, l.attest, l.cgroups, l.listens = m, m.Applied, w.cgroups, true
	err = l.run(ctx)
	for _, code := range l.notes {
		m.Note(code)
	}
	for metric, value := range l.found {
		m.Record(metric, value)
	}
	return err
}

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	if n := number(t, "population"); n > 0 {
		return &crowd{task: t, size: n}, nil
	}
	return nil, nil
}

// holdSpec is spec with a process that stays until it gets SIGTERM, where the
// image is tare's own and nothing else is to be run.
func holdSpec(spec bench.Spec) bench.Spec {
	if isAgents(spec) {
		spec.Argv = []string{agent.Path, "mark", "hold"}
	}
	return spec
}

// isAgents reports whether the process inside is tare's own choice.
func isAgents(spec bench.Spec) bool {
	return len(spec.Argv) == 0 && (spec.Image == "" || spec.Image == bench.AgentImage)
}

// errWait says why a container of tare's own image would never end.
var errWait = fmt.Errorf("%w: the process of tare's own image, once used while it runs, does not end by itself: write stop or kill instead of wait, or name an image or argv", bench.ErrUnsupported)

// errExec says what an image that is not tare's needs for exec.
var errExec = fmt.Errorf("%w: exec: what is to be run in this image? name it with the option exec", bench.ErrUnsupported)
