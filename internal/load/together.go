package load

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Together runs do on that many threads at once, each with its number from 0,
// and returns when all have returned. Every thread runs by the time that they
// begin, and all are given that time: one that then has to wait for a CPU has
// lost time, and not begun later.
func Together(threads int, do func(thread int, began time.Time)) {
	var all sync.WaitGroup
	var here atomic.Int64
	var begin atomic.Pointer[time.Time]
	for i := range threads {
		all.Go(func() {
			if here.Add(1) == int64(threads) {
				now := time.Now()
				begin.Store(&now)
			}
			for begin.Load() == nil {
				runtime.Gosched()
			}
			do(i, *begin.Load())
		})
	}
	all.Wait()
}

// Quiet lets Go use that many threads at once, whatever CPU quota it has found,
// and turns its garbage collector off: the load allocates before it measures.
// The returned function undoes both.
func Quiet(threads int) (restore func()) {
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(threads)
	return func() {
		debug.SetGCPercent(percent)
		runtime.SetDefaultGOMAXPROCS()
	}
}

// MaxThreads is how many threads a load may be asked for.
const MaxThreads = 1024

// Threads returns how many threads an option asks for: a number, or "all" for
// as many as CPUs that the process may run on.
func (a *Args) Threads(key, otherwise string) int {
	if a.Text(key, otherwise) == "all" {
		return min(CPUs(), MaxThreads)
	}
	return int(a.Int(key, 1, 1, MaxThreads))
}

// CPUs is on how many CPUs the process may run: its affinity, which a CPU set
// narrows. A quota does not: it limits the time, and not the place.
func CPUs() int { return runtime.NumCPU() }
