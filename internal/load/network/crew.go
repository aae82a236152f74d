package network

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
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
			unpin := pin(c.cpus)
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

// pin keeps this thread on some CPUs until the returned function is called. Where
// that is forbidden it runs anywhere it may, and takes the chances that it would
// have had without.
func pin(cpus []int) (unpin func() error) {
	var before, set unix.CPUSet
	if len(cpus) == 0 || unix.SchedGetaffinity(0, &before) != nil {
		return func() error { return nil }
	}
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if unix.SchedSetaffinity(0, &set) != nil {
		return func() error { return nil }
	}
	return func() error { return unix.SchedSetaffinity(0, &before) }
}

// allowed lists the CPUs that this process may run on; none if nobody tells.
func allowed() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var all []int
	for cpu := 0; len(all) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all
}

// serverCPUs chooses the last CPUs for a number of threads, at most half of all.
func serverCPUs(all []int, threads int) []int {
	return all[len(all)-min(len(all), share(len(all), threads)):]
}

// clientCPUs chooses the first CPUs that the server does not have. The second
// result is false where there are none, and both share what there is.
func clientCPUs(all, server []int, threads int) ([]int, bool) {
	free := without(all, server)
	if len(free) == 0 {
		return all[:min(len(all), share(len(all), threads))], len(all) == 0
	}
	return free[:min(len(free), share(len(all), threads))], true
}

func share(cpus, threads int) int { return max(1, min(threads, cpus/2)) }

func without(all, some []int) []int {
	var out []int
	taken := make(map[int]bool)
	for _, cpu := range some {
		taken[cpu] = true
	}
	for _, cpu := range all {
		if !taken[cpu] {
			out = append(out, cpu)
		}
	}
	return out
}

// cpuTime is the user and system time of this process so far.
func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail: the arguments are valid
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
