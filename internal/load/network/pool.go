package network

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/tare-bench/tare/internal/kernel/affinity"
)

// A pool is the set of threads of one side of a session.
type pool struct {
	cpus    []int       // where they run; empty = on any CPU
	stop    atomic.Bool // tells them to end
	running sync.WaitGroup
}

// runtimeThreads is the number of processors that Go's runtime needs, for signals, timers and the
// control connection, besides the threads that keep one to themselves.
const runtimeThreads = 4

// start runs each function on a thread of its own. The thread outlives the function: when
// a thread ends, the kernel drops its counters of waits, which would then be missing in
// the counters of this process.
func (c *pool) start(works ...func()) {
	debug.SetGCPercent(-1) // a collection would wait for threads that block on the network
	if n := len(works) + runtimeThreads; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
	for _, work := range works {
		c.running.Go(func() {
			runtime.LockOSThread()
			unpin := affinity.Pin(c.cpus...)
			work()
			if unpin() == nil { // otherwise the thread stays pinned, so it must end
				runtime.UnlockOSThread()
			}
		})
	}
}

// end stops the threads and waits for them.
func (c *pool) end() {
	c.stop.Store(true)
	c.running.Wait()
}

// serverCPUs chooses the last CPUs for a number of threads, at most half of all.
func serverCPUs(all []int, threads int) []int {
	return affinity.Last(all, affinity.Share(len(all), threads))
}

// clientCPUs chooses the first CPUs that the server does not use; false if there are none,
// so that client and server share CPUs.
func clientCPUs(all, server []int, threads int) ([]int, bool) {
	share := affinity.Share(len(all), threads)
	if free := affinity.Others(all, server, share); len(free) > 0 {
		return free, true
	}
	return all[:min(len(all), share)], len(all) == 0
}
