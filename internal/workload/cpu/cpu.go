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
	"github.com/tare-bench/tare/internal/party"
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
			"Operations per second on one thread: geometric mean of the kernels. By wall clock, from the first operation of a kernel to its last."),
		rate(cpu.All, "compute, all threads", bench.Primary,
			"Operations per second on several threads at once, added up: geometric mean of the kernels. By wall clock, from the moment at which all threads run."),
	}
	for _, k := range cpu.Kernels() {
		all = append(all,
			rate(cpu.Single+"."+k, k+", one thread", bench.Detail, "The part of cpu.single that is kernel "+k+"."),
			rate(cpu.All+"."+k, k+", all threads", bench.Detail, "The part of cpu.all that is kernel "+k+"."))
	}
	return append(all, party.Counters()...)
}

func rate(name, title string, role bench.Role, doc string) bench.Metric {
	return bench.Metric{Name: name, Title: title, Unit: "1/s", Better: bench.Higher, Role: role, Scale: bench.Ratio, Doc: doc}
}

func (workload) Params() []bench.Param {
	return []bench.Param{
		{Name: "time", Default: "1s", Valid: validBy("time"), Doc: "how long to compute in one trial, a tenth of it to warm up: a duration from 10ms to 10m"},
		{Name: "threads", Default: "all", Valid: validBy("threads"), Doc: "how many threads cpu.all is measured on: a number, or all for as many as there are CPUs to run on"},
		{Name: "kernels", Default: strings.Join(cpu.Kernels(), " "), Valid: validBy("kernels"), Doc: "what to compute: a list"},
	}
}

// validBy holds a value to the load's own rule.
func validBy(option string) func(string) error {
	return func(value string) error {
		args, err := load.ParseArgs([]string{option + "=" + value})
		if err != nil {
			return err
		}
		return cpu.Check(args)
	}
}

// Check implements bench.Workload.
func (workload) Check(_ context.Context, t bench.Task) error {
	if (t.Spec.Image != "" && t.Spec.Image != bench.AgentImage) || len(t.Spec.Argv) > 0 {
		return fmt.Errorf("%w: workload cpu brings its own program: leave image and argv out", bench.ErrUnsupported)
	}
	return nil
}

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	return party.Stage(t.Engine, specOf(t)), nil
}

func specOf(t bench.Task) bench.Spec {
	spec := t.Spec
	spec.Argv = party.Loads(append([]string{cpu.Name}, load.Words(t.Params)...))
	return spec
}

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	spec := specOf(t)
	p, err := party.Start(ctx, t.Engine, spec, m, "")
	if err != nil {
		return err
	}
	defer p.End()
	reports, err := p.Reports(ctx, 1)
	if err != nil {
		return err
	}
	for name, v := range reports[0].Values {
		m.Record(name, v)
	}
	party.Record(m, p.Count(ctx))
	return m.Applied(spec, p.Applied())
}
