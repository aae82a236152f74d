package supervise

import (
	"fmt"
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

// ownEnv are the counters of tare's own control groups and network namespace
// before the process was started. If the process is in the same ones, these counts are
// subtracted from its own.
type ownEnv struct {
	hierarchy  *cgroup.Hierarchy // nil without control groups
	groups     map[string]string // by controller
	limitStats cgroup.LimitStats
	net        string // the namespace
	network    proc.Snapshot
	queue      netpath.Queue
	began      uint64 // as proc.Process.Start
	together   bool   // the process takes turns with others, whose packets this network namespace counts, too
}

func readOwnEnv() *ownEnv {
	s := &ownEnv{
		began: uint64(sinceBoot() * ticks), net: namespace("self"),
		network: proc.Network("/", os.Getpid()), queue: queue(os.Getpid()),
	}
	h, err := cgroup.Detect("/")
	if err != nil {
		return s
	}
	s.hierarchy = h
	s.groups, _ = h.PathOf(0) // on an error there is no group to share
	s.limitStats = h.LimitStats(s.groups)
	return s
}

// ticks is the number of units of proc.Process.Start per second.
const ticks = 100

// sinceBoot reads the clock of proc.Process.Start, in seconds.
func sinceBoot() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return math.NaN()
	}
	return time.Duration(t.Nano()).Seconds()
}

func namespace(pid string) string {
	name, _ := os.Readlink(filepath.Join("/proc", pid, "ns/net")) // on an error it equals no other
	return name
}

// of returns the counters of a process and its descendants.
func (s *ownEnv) of(first proc.Process, calls bench.CallCounter) Counts {
	c := unknownCounts()
	c.age = sinceBoot() - float64(first.Start)/ticks
	if all, err := proc.Descendants("/", first.PID); err == nil {
		c.calls = callsOf(all, calls)
		if c.each = talliesOf(all); len(c.each) > 0 {
			c.tally = c.each.Sum()
		}
	}
	net := namespace(strconv.Itoa(first.PID))
	switch own := net != "" && net == s.net; {
	case !own:
		c.network, c.queue = proc.Network("/", first.PID), queue(first.PID)
	case !s.together:
		c.network, c.queue = proc.Network("/", first.PID), queue(first.PID)
		for i := range c.network {
			c.network[i] -= s.network[i]
		}
		c.queue.Drops -= s.queue.Drops
		c.queue.HeldBack -= s.queue.HeldBack
	}
	if s.hierarchy != nil {
		c.limitStats = s.limitStatsOf(first)
	}
	return c
}

// periodicLimit returns what limits a process in periods or by tokens, empty if nothing does.
func (s *ownEnv) periodicLimit(pid int) (string, error) {
	if s.hierarchy != nil {
		groups, err := s.hierarchy.PathOf(pid)
		if err != nil {
			return "", err
		}
		all, err := s.hierarchy.Throttles(groups)
		if err != nil {
			return "", err
		}
		if len(all) > 0 {
			return fmt.Sprintf("%s (%s of control group %s)", all[0].Kind, all[0].File, all[0].Path), nil
		}
	}
	kind, err := netpath.RateLimit(pid)
	if err != nil || kind == "" { // without the permission to enter it, the link is unknown, as its counters are
		return "", nil
	}
	return "a rate limit on its link (tc " + kind + ")", nil
}

// queue reads the queues of a network namespace. Their counts are unknown without the
// permission to enter it.
func queue(pid int) netpath.Queue {
	q, err := netpath.Queues(pid)
	if err != nil {
		return unknownCounts().queue
	}
	return q
}

// talliesOf leaves out processes that have ended.
func talliesOf(pids []int) proc.Tallies {
	all := proc.Tallies{}
	for _, pid := range pids {
		if t, err := proc.TallyOf("/", pid); err == nil {
			all[pid] = t
		}
	}
	return all
}

// callsOf sums the system calls of processes, and leaves out those whose number is
// unknown; NaN if all are unknown, or if system calls are not counted.
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

// limitStatsOf returns the counters of a process's control groups. If the groups are tare's
// too, the counts from before the start are subtracted. If they are those of another
// parent, such as a service that makes containers without groups, nothing is known.
func (s *ownEnv) limitStatsOf(first proc.Process) cgroup.LimitStats {
	theirs, err := s.hierarchy.PathOf(first.PID)
	if err != nil {
		return cgroup.UnknownLimitStats()
	}
	now := s.hierarchy.LimitStats(theirs)
	if shared(theirs, s.groups) {
		return now.Since(s.limitStats)
	}
	if parents, err := s.hierarchy.PathOf(first.Parent); err == nil && shared(theirs, parents) {
		return cgroup.UnknownLimitStats()
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
