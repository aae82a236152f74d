package run

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
)

const (
	// garbage is how much tare may allocate between two collections. It bounds tare's
	// memory, because the collector never runs inside a trial.
	garbage = 8 << 20
	// memoryLimit lets the collector run even inside a trial, if that trial allocates
	// far more than any should, so that tare does not exhaust the machine's memory.
	memoryLimit = 256 << 20
)

// quiet keeps the garbage collector out of the trials, and limits Go's scheduler to one
// processor, until the returned function is called. With more processors, each time
// that tare begins to wait for a runtime's command, another of its threads wakes up and
// finds no work. Measured, that was a third of the CPU time that tare used in trials. A
// workload that works concurrently raises the limit for that time.
func quiet() (restore func()) {
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(memoryLimit)
	processors := runtime.GOMAXPROCS(1)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
		runtime.GOMAXPROCS(processors)
	}
}

// collectGarbage collects between trials, when it is worth it.
func collectGarbage() {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(heap)
	if heap[0].Value.Uint64() > heap[1].Value.Uint64()+garbage {
		runtime.GC()
	}
}

// usage is the usage of this process, without its children, inside trials of engines
// that are not a bench.InProcessEngine.
type usage struct {
	cpu, wall         time.Duration
	fromCPU, fromWall time.Duration // when it was last begun
}

// begin and end enclose a part of a trial.
func (u *usage) begin(clock func() time.Duration) {
	u.fromWall, u.fromCPU = clock(), affinity.CPUTime()
}

func (u *usage) end(clock func() time.Duration) {
	u.cpu += affinity.CPUTime() - u.fromCPU
	u.wall += clock() - u.fromWall
}

func (u *usage) overhead(null time.Duration) bench.Overhead {
	return bench.Overhead{NullOperation: null, CPU: u.cpu, Wall: u.wall, MaxRSS: maxRSS()}
}

// maxRSS returns the peak resident memory of this process, in bytes.
func maxRSS() int64 {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		panic("this kernel does not count the usage of a process: " + err.Error())
	}
	return r.Maxrss << 10
}

func clockGettime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("this kernel has no CLOCK_MONOTONIC: " + err.Error())
	}
	return time.Duration(t.Nano())
}

// medianOf returns the median of n durations.
func medianOf(n int, f func() time.Duration) time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = f()
	}
	slices.Sort(all)
	return all[n/2]
}
