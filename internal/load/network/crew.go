package network

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/tare-bench/tare/internal/kernel/affinity"
)

// A crew is the threads of one side of a session.
type crew struct {
	cpus []int       // where they run; empty = anywhere
	stop atomic.Bool // that they are to end
	busy sync.WaitGroup
}

// room is what Go's runtime needs beside threads that it cannot take a processor
// from: for signals, timers and the control connection.
const room = 4

// start runs every work on a thread of its own. The thread outlives it, for the
// kernel forgets how often a thread waited, and for how long, when that ends: it
// would be missing in what is counted for this process.
func (c *crew) start(works ...func()) {
	debug.SetGCPercent(-1) // a collection would wait for threads that wait for the network
	if n := len(works) + room; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
	for _, work := range works {
		c.busy.Go(func() {
			runtime.LockOSThread()
			unpin := affinity.Pin(c.cpus...)
			work()
			if unpin() == nil { // else the thread is not to be used again, and ends
				runtime.UnlockOSThread()
			}
		})
	}
}

// end stops the threads and waits for them.
func (c *crew) end() {
	c.stop.Store(true)
	c.busy.Wait()
}

// serverCPUs chooses the last CPUs for a number of threads, at most half of all.
func serverCPUs(all []int, threads int) []int {
	return affinity.Last(all, affinity.Share(len(all), threads))
}

// clientCPUs chooses the first CPUs that the server does not have. The second
// result is false where there are none, and both share what there is.
func clientCPUs(all, server []int, threads int) ([]int, bool) {
	share := affinity.Share(len(all), threads)
	if free := affinity.Others(all, server, share); len(free) > 0 {
		return free, true
	}
	return all[:min(len(all), share)], len(all) == 0
}
