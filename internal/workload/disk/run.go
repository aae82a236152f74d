package disk

import (
	"context"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/disk"
	"github.com/tare-bench/tare/internal/party"
)

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	if t.Params["tool"] == fio {
		return party.Stage(t.Engine, party.Job{Spec: checking(t)}), nil
	}
	return party.Stage(t.Engine, party.Job{
		Spec: stored(t), Load: party.LoadOf(disk.Name, optionsOf(t, bench.DataDir)),
		Finish: func(_ context.Context, _ *party.Party, m bench.Meter, r *load.Report) error {
			party.Tell(m, r)
			note(m, t, r.Facts)
			return nil
		},
	}), nil
}

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	if t.Params["tool"] == fio {
		return runFIO(ctx, t, m)
	}
	return party.Work(ctx, t, m)
}

// note marks the sample with how it was done, where that was left open.
func note(to bench.Recorder, t bench.Task, facts map[string]string) {
	notes := map[string]string{disk.Uring: bench.NoteIOUring, disk.Libaio: bench.NoteIOLibaio, disk.Threads: bench.NoteIOThreads}
	if code, ok := notes[facts[disk.FactIO]]; ok && t.Params["io"] == disk.Auto {
		to.Note(code)
	}
	if disk.InMemory(facts[disk.FactSystem]) {
		to.Note(bench.NoteNotADisk)
	}
	if t.Params["direct"] == disk.Auto && facts[disk.FactDirect] == disk.No {
		to.Note(bench.NoteBufferedIO)
	}
}
