// Package workloadtest runs workloads in tests: trials by the real runner, or one trial
// with a Meter that keeps what is recorded.
package workloadtest

import (
	"context"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/schedule"
	"github.com/tare-bench/tare/internal/store/record"
)

// Trials are trials of one cell. Zero fields have defaults.
type Trials struct {
	Workload bench.Workload
	Engine   bench.Engine
	Client   bench.Engine // for a workload with a client
	Spec     bench.Spec
	Params   map[string]string    // besides the defaults
	ID       string               // of the run; default "test"
	N        int                  // number of timed trials; default 1
	Traced   bool                 // a traced trial follows each of them
	Trial    time.Duration        // time limit of a trial; default one minute
	Op       time.Duration        // time limit of an operation; default 30 s
	Clock    func() time.Duration // default: the real clock
}

// Run runs the trials and returns their samples.
func (x Trials) Run(t testing.TB) []bench.Sample {
	t.Helper()
	x = x.withDefaults()
	h := x.header()
	kept := &keeper{header: h}
	_, err := run.Run(t.Context(), run.Options{
		Header: h, Workload: x.Workload, Engines: map[string]bench.Engine{x.Engine.Name(): x.Engine},
		Client: x.Client, Dir: t.TempDir(),
		Writer: kept, Machine: quietMachine{}, Clock: x.Clock, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return kept.samples
}

// A keeper keeps the samples of a run, which are such as a store takes.
type keeper struct {
	header  bench.Header
	samples []bench.Sample
}

// Append implements bench.RunWriter.
func (k *keeper) Append(_ context.Context, s bench.Sample) error {
	if err := record.ValidateSample(&k.header, len(k.samples), &s); err != nil {
		return err
	}
	k.samples = append(k.samples, s)
	return nil
}

// Finish implements bench.RunWriter.
func (*keeper) Finish(context.Context, bench.End) error { return nil }

// Close implements bench.RunWriter.
func (*keeper) Close() error { return nil }

func (x Trials) withDefaults() Trials {
	if x.ID == "" {
		x.ID = "test"
	}
	if x.N == 0 {
		x.N = 1
	}
	if x.Trial == 0 {
		x.Trial = time.Minute
	}
	if x.Op == 0 {
		x.Op = 30 * time.Second
	}
	if x.Clock == nil {
		x.Clock = run.Monotonic()
	}
	return x
}

func (x Trials) header() bench.Header {
	p := bench.Plan{
		Workload: x.Workload.Name(), MinBlocks: 1, MaxBlocks: x.N, TrialTime: x.Trial, OpTime: x.Op,
		Cells: []bench.Cell{{Name: x.Engine.Name(), Engine: x.Engine.Name(), Baseline: true, Spec: x.Spec, Params: x.Params}},
	}
	if x.Traced {
		p.Timeline = 1
	}
	return bench.Header{
		ID: x.ID, Began: time.Now(), Plan: p, Schedule: schedule.Blocks(p), Metrics: x.Workload.Metrics(),
	}
}

// quietMachine is a Machine that never needs to settle.
type quietMachine struct{}

func (quietMachine) Settle(context.Context, time.Duration) {}
func (quietMachine) DropCaches(context.Context) error      { return nil }

// Values returns the values of a sample, by metric.
func Values(w bench.Workload, s bench.Sample) map[string]float64 {
	all := map[string]float64{}
	for i, m := range w.Metrics() {
		if v, ok := s.Value(i); ok {
			all[m.Name] = v
		}
	}
	return all
}

// Task returns the Task of a cell. options are names and values in turn; the other
// options have their defaults.
func Task(w bench.Workload, e bench.Engine, spec bench.Spec, options ...string) bench.Task {
	t := bench.Task{Engine: e, Spec: spec, Params: map[string]string{}, Common: new(bench.Common)}
	for _, p := range w.Params() {
		t.Params[p.Name] = p.Default
	}
	for i := 0; i < len(options); i += 2 {
		t.Params[options[i]] = options[i+1]
	}
	return t
}
