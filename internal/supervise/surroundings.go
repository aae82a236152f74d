package supervise

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// surroundings are the control groups and the network namespace of tare itself
// before the process was started. A process can be in the same ones: then what had
// been counted there before is not the process's.
type surroundings struct {
	hierarchy *cgroup.Hierarchy // nil where there are no control groups
	groups    map[string]string // by controller
	strain    cgroup.Strain
	net       string // the namespace
	network   proc.Snapshot
	queue     netpath.Queue
	began     uint64 // as proc.Process.Start
}

func look() *surroundings {
	s := &surroundings{
		began: uint64(sinceBoot() * ticks), net: namespace("self"),
		network: proc.Network("/", os.Getpid()), queue: queue(os.Getpid()),
	}
	h, err := cgroup.Detect("/")
	if err != nil {
		return s
	}
	s.hierarchy = h
	s.groups, _ = h.PathOf(0) // none is nothing to be shared
	s.strain = h.Strain(s.groups)
	return s
}

// ticks is how many of proc.Process.Start make a second.
const ticks = 100

// sinceBoot is the clock of proc.Process.Start, in seconds.
func sinceBoot() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return math.NaN()
	}
	return time.Duration(t.Nano()).Seconds()
}

func namespace(pid string) string {
	name, _ := os.Readlink(filepath.Join("/proc", pid, "ns/net")) // none is nobody's
	return name
}

// of counts what belongs to a process and its descendants.
func (s *surroundings) of(first proc.Process, calls bench.CallCounter) Counts {
	c := nothing()
	c.age = sinceBoot() - float64(first.Start)/ticks
	if all, err := proc.Descendants("/", first.PID); err == nil {
		c.calls = callsOf(all, calls)
		c.tally = tallyOf(all, c.tally)
	}
	c.network, c.queue = proc.Network("/", first.PID), queue(first.PID)
	if net := namespace(strconv.Itoa(first.PID)); net != "" && net == s.net {
		for i := range c.network {
			c.network[i] -= s.network[i]
		}
		c.queue.Drops -= s.queue.Drops
		c.queue.HeldBack -= s.queue.HeldBack
	}
	if s.hierarchy != nil {
		c.strain = s.strainOf(first)
	}
	return c
}

// queue is nothing where it cannot be read: not everybody may look into another
// network namespace.
func queue(pid int) netpath.Queue {
	q, err := netpath.Queues(pid)
	if err != nil {
		return nothing().queue
	}
	return q
}

// tallyOf adds processes up; none is what there is if nothing can be read. One
// that ends meanwhile is left out.
func tallyOf(pids []int, none proc.Tally) proc.Tally {
	sum, found := proc.Tally{}, false
	for _, pid := range pids {
		if t, err := proc.Count("/", pid); err == nil {
			sum, found = sum.Plus(t), true
		}
	}
	if !found {
		return none
	}
	return sum
}

// callsOf adds the system calls of processes up, leaving out those of which none
// are known; NaN where that is so of all, or nobody counts them.
func callsOf(pids []int, calls bench.CallCounter) float64 {
	sum := math.NaN()
	if calls == nil {
		return sum
	}
	for _, pid := range pids {
		switch n := calls.SystemCalls(pid); {
		case math.IsNaN(sum):
			sum = n
		case !math.IsNaN(n):
			sum += n
		}
	}
	return sum
}

// strainOf is what the control groups of a process met. If they are tare's too,
// what was counted before is taken off. If they are another parent's, such as a
// service's that makes containers without groups, nothing is known.
func (s *surroundings) strainOf(first proc.Process) cgroup.Strain {
	theirs, err := s.hierarchy.PathOf(first.PID)
	if err != nil {
		return cgroup.NoStrain()
	}
	now := s.hierarchy.Strain(theirs)
	if shared(theirs, s.groups) {
		return now.Since(s.strain)
	}
	if parents, err := s.hierarchy.PathOf(first.Parent); err == nil && shared(theirs, parents) {
		return cgroup.NoStrain()
	}
	return now
}

// shared reports whether two processes share a group that counts.
func shared(a, b map[string]string) bool {
	return slices.ContainsFunc([]string{"cpu", "memory", "blkio", ""}, func(controller string) bool {
		group, ok := a[controller]
		return ok && group == b[controller]
	})
}
