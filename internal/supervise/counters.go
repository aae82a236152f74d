package supervise

import (
	"math"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Inside is what the names of the counters begin with.
const Inside = "inside."

// SystemCalls is the counter that is there only in a run that counts them.
const SystemCalls = Inside + "syscalls"

// Counters lists the metrics that Record reports, for a workload's Metrics.
func Counters() []bench.Metric {
	all := counters()
	metrics := make([]bench.Metric, len(all))
	for i, c := range all {
		metrics[i] = c.Metric
	}
	return metrics
}

// Record reports what was counted for the parties of a trial together, each of
// which Count looked at. What is not known of one of them is not reported.
func Record(to bench.Recorder, counted ...*Counts) {
	for _, c := range counters() {
		if v := c.over(counted); !math.IsNaN(v) {
			to.Record(c.Name, v)
		}
	}
}

// A counter is a metric and how it is made of Counts.
type counter struct {
	bench.Metric
	of    func(*Counts) float64
	among func(values, ages []float64) float64 // what several parties have together
}

func (c *counter) over(all []*Counts) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	values, ages := make([]float64, len(all)), make([]float64, len(all))
	for i, one := range all {
		values[i], ages[i] = c.of(one), one.age
		if values[i] < 0 { // a counter went backward, as of a relay that is gone: nobody knows what it counted
			values[i] = math.NaN()
		}
	}
	return c.among(values, ages)
}

func counters() []counter {
	const s, n = "s", "1"
	return []counter{
		share("throttled", "standing still for its CPU quota, of each 100 ms", "Time for which its control group had used up its CPU quota, added up over CPUs, of each 100 ms of its life.",
			func(c *Counts) float64 { return seconds(c.strain.Throttled) }),
		share("cpu_wait", "waiting for a CPU, of each 100 ms", "Time for which its threads were ready to run while others ran, added up, of each 100 ms of its life (schedstat).",
			func(c *Counts) float64 { return c.tally.WaitTime }),
		share("io_wait", "waiting for block devices, of each 100 ms", "Time for which its threads waited for block devices, added up, of each 100 ms of its life; only where the kernel has delay accounting switched on.",
			func(c *Counts) float64 { return c.tally.DiskTime }),
		share("io_pressure", "with a thread waiting for disks, of each 100 ms", "Time in which at least one thread of its control group waited for a disk, of each 100 ms of its life; version 2 only.",
			func(c *Counts) float64 { return seconds(c.strain.IOPressure) }),
		most("block_limit", "share of its limit on a block device that it used", "What it did on a block device per second of its life, as a share of the limit that its control group has there; of the limit that it came nearest to. 0 without a limit.",
			(*Counts).blockUse),
		count("memory_limit", "hits of its memory limit", n, "How often its control group met its memory limit, so that memory had to be freed first (memory.failcnt, memory.events).",
			func(c *Counts) float64 { return number(c.strain.LimitHits) }),
		count("refaults", "pages dropped and read again, inside", n, "Pages that its control group dropped for want of memory and soon needed again (memory.stat workingset_refault).",
			func(c *Counts) float64 { return number(c.strain.Refaults) }),
		count("major_faults", "page faults that read from disk, inside", n, "Page faults that had to wait for a disk.",
			func(c *Counts) float64 { return c.tally.MajorFaults }),
		count("page_faults", "page faults inside", n, "Page faults, with and without a disk.",
			func(c *Counts) float64 { return c.tally.PageFaults }),
		count("user_time", "CPU time in programs, inside", s, "CPU time in user mode, in steps of 10 ms.",
			func(c *Counts) float64 { return c.tally.UserTime }),
		count("system_time", "CPU time in the kernel, inside", s, "CPU time in the kernel, in steps of 10 ms.",
			func(c *Counts) float64 { return c.tally.SystemTime }),
		count("waits", "waits of its threads", n, "Switches from a thread to another because it had nothing to do: it waited, slept or yielded.",
			func(c *Counts) float64 { return c.tally.Waits }),
		count("preemptions", "preemptions of its threads", n, "Switches from a thread that could have gone on to another one.",
			func(c *Counts) float64 { return c.tally.Preemptions }),
		count("migrations", "moves of its threads to another CPU", n, "Times that a thread was moved to another CPU.",
			func(c *Counts) float64 { return c.tally.Migrations }),
		count("reads", "reading system calls inside", n, "System calls that read files, pipes and, by read(2), sockets.",
			func(c *Counts) float64 { return c.tally.Reads }),
		count("writes", "writing system calls inside", n, "System calls that write files, pipes and, by write(2), sockets.",
			func(c *Counts) float64 { return c.tally.Writes }),
		count("syscalls", "system calls inside", n, "System calls of its processes, of each since it last executed a program; only in a run with --syscalls.",
			func(c *Counts) float64 { return c.calls }),
		most("seccomp_filters", "seccomp filters on its system calls", "How many seccomp filters each system call of the first process goes through.",
			func(c *Counts) float64 { return c.tally.Filters }),
		count("net_packets", "network packets inside", n, "Packets received and sent by the interfaces of its network namespace, but for loopback.", network(proc.NetPackets)),
		count("loopback_packets", "loopback packets inside", n, "Packets sent over loopback in its network namespace.", network(proc.LoopPackets)),
		count("tcp_retransmits", "TCP segments sent once more, inside", n, "TCP segments that were sent once more in its network namespace.", network(proc.TCPRetransmits)),
		count("udp_errors", "UDP datagrams lost in full buffers, inside", n, "UDP datagrams that were lost in its network namespace because a buffer was full, or that were damaged.", network(proc.UDPErrors)),
		count("link_held_back", "packets held back by a rate limit on its link", n, "Times that a packet had to wait in a queue before an interface of its network namespace, or before the other end of its veth, for a limit of rate (the overlimits of tc).",
			func(c *Counts) float64 { return c.queue.HeldBack }),
		count("link_drops", "packets dropped on its link", n, "Packets that were dropped in a queue before an interface of its network namespace, or before the other end of its veth.",
			func(c *Counts) float64 { return c.queue.Drops }),
		count("relay_time", "CPU time of programs that relay its packets", s, "CPU time of programs that the engine began for this container to pass packets between it and the host: docker-proxy, rootlessport, slirp4netns, pasta.",
			func(c *Counts) float64 { return c.relayed }),
	}
}

func network(f proc.Field) func(*Counts) float64 {
	return func(c *Counts) float64 { return c.network[f] }
}

// number turns Absent into NaN.
func number(n int64) float64 {
	if n == cgroup.Absent {
		return math.NaN()
	}
	return float64(n)
}

func seconds(d time.Duration) float64 { return number(int64(d)) / float64(time.Second) }

// blockUse is how much of its limit of a block device was used, where that is most.
// It is NaN where nothing is known of the group.
func (c *Counts) blockUse() float64 {
	if c.strain.Blocks == nil {
		return math.NaN()
	}
	use := 0.0
	for _, b := range c.strain.Blocks {
		if b.Done < 0 {
			return math.NaN()
		}
		use = max(use, b.Done/c.age/b.Limit)
	}
	return use
}

// count adds up.
func count(name, title, unit, doc string, of func(*Counts) float64) counter {
	return counter{metric(name, title, unit, doc), of, func(values, _ []float64) float64 { return sum(values) }}
}

// share is what part of the time something took, in seconds of each 100 ms.
func share(name, title, doc string, of func(*Counts) float64) counter {
	return counter{metric(name, title, "s", doc), of, func(values, ages []float64) float64 {
		return 0.1 * sum(values) / sum(ages)
	}}
}

// most is what does not add up.
func most(name, title, doc string, of func(*Counts) float64) counter {
	return counter{metric(name, title, "1", doc), of, func(values, _ []float64) float64 { return slices.Max(values) }}
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

func metric(name, title, unit, doc string) bench.Metric {
	return bench.Metric{
		Name: Inside + name, Title: title, Unit: unit, Better: bench.Neither, Role: bench.Counter, Scale: bench.Difference,
		Doc: doc + " Of the processes inside, since the first of them began.",
	}
}
