// Package idle is the workload that looks at a machine while nothing happens: what the system and
// the engine take of memory and disks, and how much work they do at rest. It starts no container.
package idle

import (
	"context"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// The names of the metrics.
const (
	Memory        = "idle.memory"
	EngineMemory  = "idle.memory.engine"
	KernelMemory  = "idle.memory.kernel"
	Processes     = "idle.processes"
	KernelThreads = "idle.kernel_threads"
	Wakeups       = "idle.wakeups"
	EngineWakeups = "idle.wakeups.engine"
	CPU           = "idle.cpu"
	EngineCPU     = "idle.cpu.engine"
	SystemDisk    = "idle.disk.system"
	EngineDisk    = "idle.disk.engine"
	ImagesDisk    = "idle.disk.images"
)

// New returns the workload.
func New() bench.Workload { return workload{} }

type workload struct{}

func (workload) Name() string { return "idle" }

func (workload) Doc() string {
	return "The machine at rest: memory and disk in use, processes, wake-ups and CPU time, of the system and of the " +
		"engine's daemons."
}

func (workload) Metrics() []bench.Metric {
	m := func(name, title, unit string, role bench.Role, doc string) bench.Metric {
		return bench.Metric{
			Name: name, Title: title, Unit: unit, Better: bench.Lower, Role: role, Scale: bench.Difference, Doc: doc,
		}
	}
	memory := m(Memory, "memory in use at rest", "B", bench.Primary,
		"MemTotal less MemAvailable of /proc/meminfo, without tare's own memory: the mean of ten looks, spread over the "+
			"time watched.")
	memory.Scale = bench.Ratio
	processes := m(Processes, "processes at rest", "1", bench.Primary,
		"Processes at the end of the time watched, without kernel threads and tare.")
	processes.Scale = bench.Ratio
	return []bench.Metric{
		memory,
		m(EngineMemory, "memory of the engine at rest", "B", bench.Primary,
			"Proportional set size (smaps_rollup) of the engine's daemons and their descendants; part of idle.memory."),
		processes,
		m(Wakeups, "wake-ups at rest", "1/s", bench.Primary,
			"Times that a thread was put on a CPU (schedstat of every thread) per second of the time watched, without tare's "+
				"own threads."),
		m(CPU, "CPU at rest", "1", bench.Primary,
			"CPU time of all threads (schedstat of every thread) per second of the time watched, without tare's own: 0.01 is "+
				"one percent of one CPU."),
		m(KernelMemory, "memory of the kernel at rest", "B", bench.Detail,
			"Memory that the kernel cannot give up: slabs, stacks, page tables and data of each CPU; part of idle.memory, and "+
				"a mean like that."),
		m(KernelThreads, "kernel threads", "1", bench.Detail, "Threads of the kernel itself."),
		m(EngineWakeups, "wake-ups of the engine at rest", "1/s", bench.Detail,
			"The part of idle.wakeups that is of the engine's daemons and their descendants."),
		m(EngineCPU, "CPU of the engine at rest", "1", bench.Detail,
			"The part of idle.cpu that is of the engine's daemons and their descendants."),
		m(SystemDisk, "disk of the system", "B", bench.Detail,
			"Used space of the file system of /, without what the engine has there."),
		m(EngineDisk, "disk of the engine", "B", bench.Detail,
			"Allocated blocks of all files in the directories where the engine keeps what it has, images included."),
		m(ImagesDisk, "disk of images", "B", bench.Detail,
			"Size of all images by the engine's own account, with each layer once; part of idle.disk.engine."),
	}
}

// NoteFilesUnknown marks a sample without the size of the engine's files.
const NoteFilesUnknown = "engine-files-unknown"

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	return []bench.Note{{
		Code: NoteFilesUnknown,
		Text: "the files of the engine of {cells} could not be counted, so disk of the system and of the engine is missing",
		Advice: "run tare as root; it stops counting at a million files, after a quarter of a minute, or where " +
			"files share blocks (subvolumes of btrfs, ZFS)",
		Metric: EngineDisk,
	}}
}

func (workload) Params() []bench.Param {
	return []bench.Param{
		{
			Name: "time", Default: "10s", Valid: bench.DurationBetween(100*time.Millisecond, time.Hour),
			Doc: "how long to watch the machine at rest",
		},
		{
			Name: "calm", Default: "2s", Valid: bench.DurationBetween(0, time.Hour),
			Doc: "how long to wait before that, for daemons to finish what they do after containers",
		},
	}
}

// Check implements bench.Workload. There is nothing that an engine must be able to do: what it does not
// tell is missing.
func (workload) Check(context.Context, bench.Task) error { return nil }
