package supervise

import (
	"context"
	"math"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// What is counted for whom. A Process is one container; "first" is the first process in
// it, which the engine names (bench.ProcessReporter).
//
//	counter        counted for                        starts at
//	tally, calls   first and its living descendants   each process's own start
//	age            first                              its start
//	strain         the control groups of first        see below
//	network, queue the network namespace of first     see below
//	relayed        programs that the engine began     their start
//	               to pass its packets on
//
// A control group or network namespace of the container's own begins at zero with it. If
// it is tare's (a plain process, network host), the counters from just before the start
// are subtracted: surroundings keeps them. If a control group is that of the parent of
// first, such as an engine's service that makes containers without groups, it also counts
// others, so the strain is unknown.
//
// Count is what was counted since the start, for a container that does one thing.
// CountNew is what was counted since the last CountNew: the parts of a survey that share
// a container, and the trials that share a server, each get their own share. Record sums
// the processes of a trial, such as client and server.

// Counts is what the kernel counted for a process since it was started. An unknown
// value is NaN, never zero.
type Counts struct {
	tally      proc.Tally        // of its processes, summed
	each       proc.Tallies      // of each of them; empty = unknown
	age        float64           // of its first process, in s
	limitStats cgroup.LimitStats // of its control group
	network    proc.Snapshot     // of its network namespace
	queue      netpath.Queue
	relayed    float64 // CPU time, in s, of programs that pass its packets on
	calls      float64 // system calls of its processes, summed
}

// unknownCounts is the Counts of a process about which nothing is known.
func unknownCounts() Counts {
	nan := math.NaN()
	c := Counts{age: nan, limitStats: cgroup.UnknownLimitStats(), relayed: nan, calls: nan}
	c.tally = proc.Tally{
		UserTime: nan, SystemTime: nan, PageFaults: nan, MajorFaults: nan, Reads: nan, Writes: nan,
		WaitTime: nan, DiskTime: nan, Waits: nan, Preemptions: nan, Migrations: nan, Filters: nan,
	}
	c.queue = netpath.Queue{Drops: nan, HeldBack: nan}
	for i := range c.network {
		c.network[i] = nan
	}
	return c
}

// since subtracts what had been counted before; the zero Counts subtracts nothing.
func (c *Counts) since(before *Counts) *Counts {
	d := *c
	d.tally = c.tally.Minus(before.tally)
	if len(c.each) > 0 && len(before.each) > 0 {
		d.tally = c.each.Since(before.each)
	}
	d.age -= before.age
	d.limitStats = c.limitStats.Since(before.limitStats)
	for i := range d.network {
		d.network[i] -= before.network[i]
	}
	d.queue = netpath.Queue{Drops: c.queue.Drops - before.queue.Drops, HeldBack: c.queue.HeldBack - before.queue.HeldBack}
	d.relayed -= before.relayed
	d.calls -= before.calls
	return &d
}

// WithoutThreads are the counts without those that the kernel forgets with each process, such as context switches: after
// processes that did the work have ended, they would be those of the others.
func (c *Counts) WithoutThreads() *Counts {
	d := *c
	d.tally, d.calls = d.tally.WithoutThreads(), math.NaN()
	return &d
}

// Count reads what the kernel has counted for the process so far. Call it when nothing
// is timed and the process inside is alive: loads stay after their reports. For a program
// that ended while Output waited for it, Count returns the last reading before the end.
func (p *Process) Count(ctx context.Context) *Counts {
	if c, ok := p.count(ctx); ok {
		p.last = c
	}
	return &p.last
}

// CountNew returns what the kernel has counted since the last CountNew, or since the
// process was started; nothing is known if the process has ended. Call it as Count. It
// separates the parts that take turns in one container, and the trials of one server.
func (p *Process) CountNew(ctx context.Context) *Counts {
	now, _ := p.count(ctx)
	counts := now.since(&p.partBegan)
	p.partBegan = now
	return counts
}

// count reads the counters; false if the process has ended or is unknown.
func (p *Process) count(ctx context.Context) (Counts, bool) {
	if !p.find(ctx) {
		return unknownCounts(), false
	}
	c := p.ownEnv.of(p.first, p.calls)
	c.relayed = p.relayed()
	// The kernel reuses PIDs: check that the counters were those of this process.
	if now, err := proc.Find("/", p.first.PID); err != nil || now.Start != p.first.Start || now.State == 'Z' {
		return unknownCounts(), false
	}
	return c, true
}

// find asks the engine, once, for the first process inside.
func (p *Process) find(ctx context.Context) bool {
	if p.first.PID != 0 {
		return true
	}
	o, ok := bench.As[bench.ProcessReporter](p.engine)
	if !ok {
		return false
	}
	pid, err := o.Pid(ctx, p.container)
	if err != nil {
		return false
	}
	first, err := proc.Find("/", pid)
	if err != nil {
		return false
	}
	p.first, p.relays = first, relaysSince(p.ownEnv.began, first.PID)
	return true
}

// watch reads the counters regularly until the returned function is called, so that
// there are values for a program that ends by itself.
func (p *Process) watch(ctx context.Context) (stop func()) {
	watching, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	p.find(ctx)
	go func() {
		defer close(ended)
		for tick := time.NewTicker(watchEvery); ; {
			select {
			case <-watching.Done():
				tick.Stop()
				return
			case <-tick.C:
				if c, ok := p.count(watching); ok {
					p.last = c
				}
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// watchEvery is the interval of the readings: what a program does after the last one is
// missed, and each takes about a millisecond of CPU time.
const watchEvery = 100 * time.Millisecond
