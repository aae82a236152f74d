package disk

import (
	"context"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/disk"
	"github.com/tare-bench/tare/internal/supervise"
)

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	if t.Params["tool"] == fio.Name {
		return supervise.Stage(t.Engine, supervise.Job{Spec: checking(t)}), nil
	}
	return supervise.Stage(t.Engine, supervise.Job{
		Spec: stored(t), Load: supervise.LoadOf(disk.Name, optionsOf(t, bench.DataDir)),
		Finish: func(_ context.Context, _ *supervise.Process, m bench.Meter, r *load.Report) error {
			supervise.Tell(m, r)
			note(m, t, r.Facts)
			return nil
		},
	}), nil
}

// Run implements bench.Workload.
func (workload) Run(ctx context.Context, t bench.Task, m bench.Meter) error {
	if t.Params["tool"] == fio.Name {
		return runFIO(ctx, t, m)
	}
	return supervise.Work(ctx, t, m)
}

// The codes of notes. NoteIOUring, NoteIOLibaio and NoteIOThreads tell how requests
// reached the kernel, where that was left open.
const (
	NoteIOUring   = "io-uring"
	NoteIOLibaio  = "io-libaio"
	NoteIOThreads = "io-threads"
	// NoteNotADisk marks a sample whose data was kept in memory.
	NoteNotADisk = "not-a-disk"
	// NoteBufferedIO marks a sample that went through the page cache because the
	// file system cannot do without, and nobody insisted.
	NoteBufferedIO = "buffered-io"
)

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	ways := &bench.Note{
		Code: "io-differs",
		Text: "not all cells handed their requests to the kernel in the same way ({ways}): that and the " +
			"engines are confounded",
		Advice: "choose one that is allowed everywhere: --param io=libaio",
	}
	way := func(code, name string) bench.Note {
		return bench.Note{
			Code: code, Way: name, Ways: ways,
			Text:   "{cells} handed requests to the kernel with " + name + ", the first way that was allowed",
			Advice: "name it to be sure of it: --param io=" + name,
		}
	}
	return []bench.Note{
		way(NoteIOUring, disk.Uring), way(NoteIOLibaio, disk.Libaio), way(NoteIOThreads, disk.Threads),
		{
			Code:   NoteNotADisk,
			Text:   "the data of {cells} was in memory (tmpfs) and not on a disk",
			Advice: "for a disk take another storage, or name a directory on one with `data`",
		},
		{
			Code:   NoteBufferedIO,
			Text:   "the file system under {cells} cannot do direct I/O: requests went through the page cache",
			Advice: "compare with cells that are marked too, or have all use the page cache: --param direct=no",
		},
	}
}

// note marks the sample with how it was done, where that was left open.
func note(to bench.Recorder, t bench.Task, facts map[string]string) {
	notes := map[string]string{disk.Uring: NoteIOUring, disk.Libaio: NoteIOLibaio, disk.Threads: NoteIOThreads}
	if code, ok := notes[facts[disk.FactIO]]; ok && t.Params["io"] == disk.Auto {
		to.Note(code)
	}
	if disk.InMemory(facts[disk.FactSystem]) {
		to.Note(NoteNotADisk)
	}
	if t.Params["direct"] == disk.Auto && facts[disk.FactDirect] == disk.No {
		to.Note(NoteBufferedIO)
	}
}
