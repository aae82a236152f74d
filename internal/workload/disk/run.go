package disk

import (
	"context"
	"maps"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/disk"
	"github.com/tare-bench/tare/internal/party"
)

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	spec := stored(t)
	spec.Argv = loadArgv(t, bench.DataDir)
	return party.Stage(t.Engine, spec), nil
}

// loadArgv runs the load or, where fio is to do it, what goes before.
func loadArgv(t bench.Task, dir string) []string {
	if t.Params["tool"] == fio {
		return surveyArgv(t, dir)
	}
	return party.Loads(append([]string{disk.Name}, optionsOf(t, dir)...))
}

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	if t.Params["tool"] == fio {
		return runFIO(ctx, t, m)
	}
	spec, dir, err := place(t)
	if err != nil {
		return err
	}
	spec.Argv = loadArgv(t, dir)
	p, err := party.Start(ctx, t.Engine, spec, m, "")
	if err != nil {
		return err
	}
	defer p.End()
	reports, err := p.Reports(ctx, 1)
	if err != nil {
		return err
	}
	record(m, reports[0])
	party.Record(m, p.Count(ctx))
	note(m, t, reports[0].Facts)
	return apply(m, spec, p.Applied(ctx), dir)
}

// record tells the meter what a load reported.
func record(m bench.Meter, r *load.Report) {
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		m.Record(name, r.Values[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Distributions)) {
		m.Distribution(name, string(r.Distributions[name]))
	}
}

// note marks the sample with how it was done, where that was left open.
func note(m bench.Meter, t bench.Task, facts map[string]string) {
	notes := map[string]string{disk.Uring: bench.NoteIOUring, disk.Libaio: bench.NoteIOLibaio, disk.Threads: bench.NoteIOThreads}
	if code, ok := notes[facts[disk.FactIO]]; ok && t.Params["io"] == disk.Auto {
		m.Note(code)
	}
	if disk.InMemory(facts[disk.FactSystem]) {
		m.Note(bench.NoteNotADisk)
	}
	if t.Params["direct"] == disk.Auto && facts[disk.FactDirect] == disk.No {
		m.Note(bench.NoteBufferedIO)
	}
}

// apply tells the meter what the engine applied.
func apply(m bench.Meter, want bench.Spec, got bench.Applied, dir string) error {
	want.Argv, got.Argv = withoutDir(want.Argv, dir), withoutDir(got.Argv, dir)
	return m.Applied(want, got)
}
