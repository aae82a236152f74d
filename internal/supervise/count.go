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

// Counts is what the kernel counted for a process since it was started. What it
// does not tell is NaN, never zero.
type Counts struct {
	tally   proc.Tally    // of its processes, added up
	age     float64       // s, for which its first process has been there
	strain  cgroup.Strain // of its control group
	network proc.Snapshot // of its network namespace
	queue   netpath.Queue
	relayed float64 // s of CPU time of programs that pass its packets on
	calls   float64 // system calls of its processes, added up
}

// nothing is the Counts of a process that cannot be looked at.
func nothing() Counts {
	nan := math.NaN()
	c := Counts{age: nan, strain: cgroup.NoStrain(), relayed: nan, calls: nan}
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

// since takes off what had been counted before; the zero Counts is nothing yet.
func (c *Counts) since(before *Counts) *Counts {
	d := *c
	d.tally = c.tally.Minus(before.tally)
	d.age -= before.age
	d.strain = c.strain.Since(before.strain)
	for i := range d.network {
		d.network[i] -= before.network[i]
	}
	d.queue = netpath.Queue{Drops: c.queue.Drops - before.queue.Drops, HeldBack: c.queue.HeldBack - before.queue.HeldBack}
	d.relayed -= before.relayed
	d.calls -= before.calls
	return &d
}

// Count looks at what the kernel has counted for the process so far. It is to be
// called outside of what is timed, while the process inside is there: loads stay
// after their reports. Of a program that ended while Output waited for it, it is
// what was counted when it was last looked at.
func (p *Process) Count(ctx context.Context) *Counts {
	if c, ok := p.count(ctx); ok {
		p.last = c
	}
	return &p.last
}

// CountNew is what the kernel has counted since it was last called, or else since the
// party was started; nothing where it cannot be looked at any more. It is called as
// Count is, and tells apart what is done in one container by turns, or in trial after
// trial.
func (p *Process) CountNew(ctx context.Context) *Counts {
	now, _ := p.count(ctx)
	counts := now.since(&p.turned)
	p.turned = now
	return counts
}

// count looks; false where there is nothing to look at any more.
func (p *Process) count(ctx context.Context) (Counts, bool) {
	if !p.find(ctx) {
		return nothing(), false
	}
	c := p.surroundings.of(p.first, p.calls)
	c.relayed = p.relayed()
	// A number is used again: what was read must have been of this process.
	if now, err := proc.Find("/", p.first.PID); err != nil || now.Start != p.first.Start || now.State == 'Z' {
		return nothing(), false
	}
	return c, true
}

// find asks the engine, once, for the first process inside.
func (p *Process) find(ctx context.Context) bool {
	if p.first.PID != 0 {
		return true
	}
	o, ok := bench.As[bench.Overseer](p.engine)
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
	p.first, p.relays = first, relaysSince(p.surroundings.began, first.PID)
	return true
}

// watch looks at the process now and then until the returned function is called,
// so that something is known of a program that ends by itself.
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

// watchEvery is how often: what a program does in its last moments is missed,
// and each look takes about a millisecond of CPU time.
const watchEvery = 100 * time.Millisecond
