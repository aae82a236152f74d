// Package cpu is the workload that computes, inside and outside of a
// container: on one thread, and on as many as there are CPUs.
package cpu

import (
	"context"
	"fmt"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/cpu"
	"github.com/tare-bench/tare/internal/supervise"
)

// New returns the workload.
func New() bench.Workload { return workload{} }

type workload struct{}

func (workload) Name() string { return cpu.Name }

func (workload) Doc() string {
	return "Computing, on one thread and on all: integers, floating point, primes, sorting, encryption, compression, physics, strings, vectors."
}

func (workload) Metrics() []bench.Metric {
	all := []bench.Metric{
		rate(cpu.Single, "compute, one thread", bench.Primary,
			"Operations per second on one thread: geometric mean of the kernels. The speed at which a CPU does them when nothing slows it down, by the share of the time for which the thread had a CPU."),
		rate(cpu.All, "compute, all threads", bench.Primary,
			"Operations per second that several threads at once get done, added up: geometric mean of the kernels. By wall clock, from the moment at which all threads run."),
	}
	all = append(all, rate(cpu.SingleDone, "compute, one thread, all that got done", bench.Detail,
		"As cpu.single, but by wall clock: what slowed the CPU down now and then is in it, such as a neighbour, or a program "+
			"of the engine, on the other thread of its core."))
	for _, k := range cpu.Kernels() {
		all = append(all,
			rate(cpu.Single+"."+k, k+", one thread", bench.Detail, "The part of cpu.single that is kernel "+k+"."),
			rate(cpu.All+"."+k, k+", all threads", bench.Detail, "The part of cpu.all that is kernel "+k+"."))
	}
	return append(all, supervise.Counters()...)
}

func rate(name, title string, role bench.Role, doc string) bench.Metric {
	return bench.Metric{Name: name, Title: title, Unit: "1/s", Better: bench.Higher, Role: role, Scale: bench.Ratio, Doc: doc}
}

func (workload) Params() []bench.Param {
	return []bench.Param{
		{Name: "time", Default: "1s", Valid: validBy("time"), Doc: "how long to compute in one trial, a tenth of it to warm up: a duration from 10ms to 10m; tools compute for whole seconds"},
		{Name: "threads", Default: "all", Valid: validBy("threads"), Doc: "how many threads cpu.all is measured on: a number, or all for as many as there are CPUs to run on"},
		{Name: "kernels", Default: every(), Valid: validBy("kernels"), Doc: "what to compute: a list; tools compute what they do"},
		{Name: "tool", Default: "", Valid: bench.OneOf("", "sysbench", "stress-ng", passMarkName), Doc: "sysbench, stress-ng or pt_linux: the host's program, packed into an image of its own, in place of what is built in"},
	}
}

func every() string { return strings.Join(cpu.Kernels(), " ") }

// validBy holds a value to the load's own rule.
func validBy(option string) func(string) error {
	return func(value string) error { return load.Valid(option, value, cpu.Check) }
}

// Check implements bench.Workload.
func (workload) Check(_ context.Context, t bench.Task) error {
	if err := supervise.CheckOwn(cpu.Name, t.Spec); err != nil {
		return err
	}
	if name := t.Params["tool"]; name != "" {
		if t.Params["kernels"] != every() {
			return fmt.Errorf("%w: kernels: %s computes what it does: leave kernels out, or tool", bench.ErrUnsupported, name)
		}
		return toolNamed(name).find()
	}
	return nil
}

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	if name := t.Params["tool"]; name != "" {
		return toolNamed(name).stage(t)
	}
	options := map[string]string{}
	for _, key := range []string{"time", "threads", "kernels"} {
		options[key] = t.Params[key]
	}
	return supervise.Stage(t.Engine, supervise.Job{Spec: t.Spec, Load: supervise.LoadOf(cpu.Name, options)}), nil
}

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	return supervise.Work(ctx, t, m)
}
