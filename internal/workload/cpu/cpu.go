// Package cpu is the workload that measures CPU speed inside and outside of a
// container: on one thread, and on one thread per CPU.
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
	return "CPU speed on one thread and on all: integers, floating point, primes, sorting, encryption, compression, " +
		"physics, strings, vectors."
}

func (workload) Metrics() []bench.Metric {
	all := []bench.Metric{
		rate(cpu.Single, "compute, one thread", bench.Primary,
			"Operations per second on one thread: geometric mean of the kernels. It is the speed of the CPU when nothing "+
				"slows it down, times the share of the time for which the thread had a CPU."),
		rate(cpu.All, "compute, all threads", bench.Primary,
			"Operations per second of several threads at once, summed: geometric mean of the kernels. "+
				"Measured by wall clock, from the moment when all threads run."),
	}
	all = append(all, rate(cpu.SingleDone, "compute, one thread, by wall clock", bench.Detail,
		"Like cpu.single, but by wall clock. So it includes slowdowns that come and go, such as a neighbour, or a program "+
			"of the engine, on the other thread of the core."))
	for _, k := range cpu.Kernels() {
		all = append(all,
			rate(cpu.Single+"."+k, k+", one thread", bench.Detail, "The part of cpu.single that is kernel "+k+"."),
			rate(cpu.All+"."+k, k+", all threads", bench.Detail, "The part of cpu.all that is kernel "+k+"."))
	}
	all = bench.WithStretches(all, cpu.Single, cpu.All)
	return append(all, supervise.Counters()...)
}

func rate(name, title string, role bench.Role, doc string) bench.Metric {
	return bench.Metric{
		Name: name, Title: title, Unit: "1/s", Better: bench.Higher, Role: role, Scale: bench.Ratio, Doc: doc,
	}
}

func (workload) Params() []bench.Param {
	return []bench.Param{
		{Name: "time", Default: "1s", Valid: validBy("time"), Doc: "computing time of one trial, from 10ms to 10m; " +
			"the first tenth is warm-up; tools compute for whole seconds"},
		{Name: "threads", Default: "all", Valid: validBy("threads"), Doc: "number of threads for cpu.all, " +
			"or all: one for each available CPU"},
		{Name: "kernels", Default: every(), Valid: validBy("kernels"), Doc: "list of the computations; tools have " +
			"their own"},
		{
			Name: "tool", Default: "", Valid: bench.OneOf("", "sysbench", "stress-ng", passMarkName),
			Doc: "sysbench, stress-ng or pt_linux: use this program of " +
				"the host, packed into an image, instead of the built-in load",
		},
		{Name: "prime", Default: "20000", Valid: bench.Between(3, 1_000_000), Doc: "sysbench searches the primes up to " +
			"this number"},
	}
}

func every() string { return strings.Join(cpu.Kernels(), " ") }

// validBy checks an option with the load's own rule.
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
			return fmt.Errorf(
				"%w: kernels: %s has its own computations: leave out kernels or tool", bench.ErrUnsupported, name)
		}
		return toolNamed(name).find()
	}
	return nil
}

// TakesTurns implements bench.TurnTaker.
func (workload) TakesTurns(params map[string]string) bool { return params["tool"] == "" }

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	if name := t.Params["tool"]; name != "" {
		return toolNamed(name).setUp(t)
	}
	options := map[string]string{}
	for _, key := range []string{"time", "threads", "kernels"} {
		options[key] = t.Params[key]
	}
	return supervise.NewJobs(t, supervise.Job{Spec: t.Spec, Load: supervise.LoadOf(cpu.Name, options)}), nil
}

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	return supervise.RunTrial(ctx, t, m)
}
