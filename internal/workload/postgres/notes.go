package postgres

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	load "github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/supervise"
)

// The codes of notes.
const (
	// NoteCheckpoint marks a sample in which a checkpoint fell into a part.
	NoteCheckpoint = "postgres-checkpoint"
	// NoteVolatile marks a sample whose data was on an overlay that ignores fsync.
	NoteVolatile = "postgres-volatile"
	// NoteInMemory marks a sample whose data was in memory.
	NoteInMemory = "postgres-in-memory"
	// NoteOtherDisk marks a sample whose data was not on the same as in other cells, although nobody asked for that.
	NoteOtherDisk = "postgres-other-disk"
	// NoteContended marks a sample in which more clients wrote than there are branches.
	NoteContended = "postgres-contended"
	// NoteLoadBound marks a sample in which the clients used all of their CPU time, but the server
	// did not.
	NoteLoadBound = "load-bound"
)

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	return []bench.Note{
		supervise.SameCPU(),
		{
			Code: NoteCheckpoint,
			Text: "a checkpoint fell into a part of {cells}: it takes disk and CPU from the transactions, and pages are " +
				"written whole to the WAL after it",
			Advice: "with settings=steady there is none unless the WAL grows beyond max_wal_size; with settings=server make " +
				"time and write_time as long as several checkpoints",
		},
		{
			Code: NoteVolatile,
			Text: "fsync does nothing here: the data of {cells} was on an overlay with the mount option volatile, which " +
				"ignores it",
			Advice: "a crash of the machine loses commits there; compare with storage volume or bind, and see the engine's " +
				"mount options",
		},
		{
			Code:   NoteInMemory,
			Text:   "the data of {cells} was in memory (tmpfs), so a sync costs nothing",
			Advice: "to measure a disk, use another storage, or set data to a directory on a disk",
		},
		{
			Code: NoteOtherDisk, Doubt: "the data was not on the same file system everywhere",
			Text: "the data of {cells} was on another file system, or mounted with other options, than that of other cells: " +
				"that is a part of the difference",
			Advice: "set storage to bind and data to one directory for all cells, or move where the engine keeps its data",
		},
		{
			Code:   NoteContended,
			Text:   "more clients wrote than {cells} has branches, so they waited for each other's locks on these rows",
			Advice: "the numbers show the locks more than the cell: use a scale of at least the number of clients",
		},
		{
			Code:   load.NoteFailed,
			Text:   "the server refused transactions of {cells}: they are counted, but no time and no rate includes them",
			Advice: "see the metrics failed and their kinds",
		},
		{
			Code: load.NoteClosedLoop, AllParts: true,
			Text: "the clients of {cells} waited for each answer before they began the next transaction (closed loop): " +
				"while the server stalls, they send nothing, so few times include the stall",
			Advice: "to include queueing delay, use part load with a rate",
		},
		{
			Code:   load.NoteRateMissed,
			Text:   "more than 1 % of the transactions due in {cells} did not end well before the end of the time",
			Advice: "the server or the clients cannot keep this rate, so the times show the length of the queue: lower the rate",
		},
		{
			Code: NoteLoadBound, Doubt: "the client was the bottleneck, not the server",
			Text: "the clients were the bottleneck of {cells}: they used all of their CPU time, but the server did not",
			Advice: "the server can do more than the numbers show: give the clients more CPUs, or use part load with a rate " +
				"that they can send; client_cpu says of which part, and of which number of clients of a sweep",
		},
	}
}

// note marks the sample once.
func (t *trial) note(code string) {
	if !slices.Contains(t.noted, code) {
		t.noted = append(t.noted, code)
		t.m.Note(code)
	}
}

// notePart notes what qualifies the values of a part.
func (t *trial) notePart(r partResult) {
	open := slices.ContainsFunc(t.options.parts, func(p part) bool { return p.rate != "0" })
	for _, note := range r.report.Notes {
		if note != load.NoteClosedLoop || !open { // then another part shows a stall
			t.note(note)
		}
	}
	if r.counted["checkpoints"] > 0 {
		t.note(NoteCheckpoint)
	}
	if r.part.script == scriptTPCB && r.part.most() > t.options.scale {
		t.note(NoteContended)
	}
	if slices.ContainsFunc(r.steps, t.isLoadBound) {
		t.note(NoteLoadBound)
	}
}

// isLoadBound reports whether the clients had no CPU time left while the server had.
func (t *trial) isLoadBound(s step) bool {
	const full, clearly = 0.95, 0.10
	client, ok := s.report.Values[clientCPU]
	span, err := strconv.ParseFloat(s.report.Facts["span"], 64)
	if !ok || err != nil || !(span > 0) || len(t.cpus.server) == 0 || s.server <= 0 {
		return false
	}
	return client >= full && s.server.Seconds()/span/float64(len(t.cpus.server)) <= client-clearly
}

// noteApplied notes what the storage means, and whether the two sides have CPUs of their own.
func (t *trial) noteApplied() {
	if t.options.pin && len(t.cpus.client) == 0 {
		t.note(supervise.NoteSameCPU)
	}
	if strings.HasSuffix(t.applied.Data, " tmpfs") || t.applied.Data == "tmpfs" {
		t.note(NoteInMemory)
	}
	if ignoresSync(t.applied.DataMounts) {
		t.note(NoteVolatile)
	}
	if mounts := t.applied.DataMounts; len(mounts) > 0 && t.task.Spec.Data == "" && t.task.Spec.Storage != "tmpfs" &&
		!attestedOf(t.task).onSame(syncing(mounts[len(mounts)-1:])) {
		t.note(NoteOtherDisk)
	}
}

// ignoresSync reports whether a mount below the data is an overlay to which fsync means nothing.
func ignoresSync(mounts []string) bool {
	return slices.ContainsFunc(mounts, func(one string) bool {
		system, options, _ := strings.Cut(one, " ")
		all := strings.Split(options, ",")
		return system == "overlay" && (slices.Contains(all, "volatile") || slices.Contains(all, "fsync=volatile"))
	})
}
