package disk

import (
	"context"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/disk"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/text/unit"
)

// TakesTurns implements bench.TurnTaker: reads take turns. What writes cost comes later, so they do not.
func (workload) TakesTurns(params map[string]string) bool {
	return params["tool"] == "" && strings.Contains(params["patterns"], "read")
}

// RestingMemory implements bench.Hoarder: the file, of which nobody knows beforehand whether it will be in memory, as in
// a tmpfs or the page cache.
func (w workload) RestingMemory(params map[string]string) int64 {
	size, err := unit.ParseBytes(params["size"])
	if err != nil || params["direct"] == "yes" || !w.TakesTurns(params) {
		return 0 // the run will say what is wrong with the size
	}
	return size
}

// Setup implements bench.Fixturer.
func (workload) Setup(_ context.Context, t bench.Task) (bench.Fixture, error) {
	if t.Params["tool"] == fio.Name {
		return supervise.NewJobs(t, supervise.Job{Spec: checkSpec(t)}), nil
	}
	return supervise.NewJobs(t, supervise.Job{
		Spec: specWithData(t), Load: supervise.LoadOf(disk.Name, optionsOf(t, bench.DataDir)),
		Finish: func(_ context.Context, _ *supervise.Process, m bench.Meter, r *load.Report) error {
			supervise.RecordReport(m, r)
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
	return supervise.RunTrial(ctx, t, m)
}

// The codes of notes. NoteIOUring, NoteIOLibaio and NoteIOThreads say how requests
// reached the kernel, if option io is auto.
const (
	NoteIOUring   = "io-uring"
	NoteIOLibaio  = "io-libaio"
	NoteIOThreads = "io-threads"
	// NoteNotADisk marks a sample whose data was kept in memory.
	NoteNotADisk = "not-a-disk"
	// NoteBufferedIO marks a sample that used the page cache because the file system has
	// no direct I/O, and option direct is auto.
	NoteBufferedIO = "buffered-io"
)

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	ways := &bench.Note{
		Code:   "io-differs",
		Text:   "the cells used different I/O methods ({ways}), so methods and engines are confounded",
		Advice: "choose a method that is allowed everywhere: --param io=libaio",
	}
	way := func(code, name string) bench.Note {
		return bench.Note{
			Code: code, Choice: name, MixedChoices: ways,
			Text:   "{cells} used I/O method " + name + ", the first one that was allowed",
			Advice: "to fix the method, set --param io=" + name,
		}
	}
	return []bench.Note{
		way(NoteIOUring, disk.Uring), way(NoteIOLibaio, disk.Libaio), way(NoteIOThreads, disk.Threads),
		{
			Code:   NoteNotADisk,
			Text:   "the data of {cells} was in memory (tmpfs), not on a disk",
			Advice: "to measure a disk, use another storage, or set `data` to a directory on a disk",
		},
		{
			Code:   NoteBufferedIO,
			Text:   "the file system of {cells} has no direct I/O, so requests used the page cache",
			Advice: "compare only with cells that are marked too, or let all use the page cache: --param direct=no",
		},
	}
}

// note marks the sample with the choices that the load made.
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
