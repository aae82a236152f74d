package load

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tare-bench/tare/internal/load/turn"
)

// RunThreads runs do on several threads at once, each with its number from 0, and returns
// when all have returned. They are a stage of a process that takes turns, and it returns how fast
// they were in each slice: see turn.Stage.Slices. Without a page they take none.
// The threads begin when all of them run, and get clocks that show 0 at that moment: a thread
// that must then wait for a CPU has lost time, but not begun later.
//
// A thread here is a goroutine. If do pins itself, blocks in system calls or reads the
// thread's own clock, it calls runtime.LockOSThread first.
func RunThreads(page *turn.Page, threads int, do func(thread int, clock *turn.Clock)) (slices []float64) {
	stage := page.Stage(threads)
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
			clock := stage.Clock(*begin.Load())
			do(i, clock)
			clock.End()
		})
	}
	all.Wait()
	return stage.Slices()
}

// StretchShare is the share of the time of a stage that its uninterrupted stretch takes in addition.
const StretchShare = 4 // a quarter

// StretchSuffix is the end of the name of a value that was measured in an uninterrupted stretch.
const StretchSuffix = ".stretch"

// SetThreads lets Go run a number of threads at once, whatever CPU quota it has found, and
// turns the garbage collector off: loads allocate before they measure. A load
// calls it before RunThreads. The returned function undoes both.
func SetThreads(threads int) (restore func()) {
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(threads)
	return func() {
		debug.SetGCPercent(percent)
		runtime.SetDefaultGOMAXPROCS()
	}
}

// MaxThreads is the largest number of threads of a load.
const MaxThreads = 1024

// Threads returns the number of threads that an option asks for: a number, or "all" for
// one per CPU that the process may use.
func (a *Args) Threads(key, otherwise string) int {
	if a.Text(key, otherwise) == "all" {
		return min(CPUs(), MaxThreads)
	}
	return int(a.Int(key, 1, 1, MaxThreads))
}

// CPUs is the number of CPUs that the process may use: its affinity, which a CPU set
// narrows. A quota does not change it: it limits the time, not the CPUs.
func CPUs() int { return runtime.NumCPU() }
