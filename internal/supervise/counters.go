package supervise

import (
	"math"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Inside begins the names of the counters.
const Inside = "inside."

// SystemCalls is the counter that exists only in a run that counts system calls.
const SystemCalls = Inside + "syscalls"

// Counters lists the metrics that Record reports, and those that RecordReport reports beside a load's own, for
// a workload's Metrics.
func Counters() []bench.Metric {
	all := counters()
	metrics := make([]bench.Metric, len(all))
	for i, c := range all {
		metrics[i] = c.Metric
	}
	return append(metrics, costs()...)
}

// Record reports the counters of all processes of a trial together; each of counted is
// from Count or CountNew. A counter that is unknown for one of them is not reported.
func Record(to bench.Recorder, counted ...*Counts) {
	for _, c := range counters() {
		if v := c.over(counted); !math.IsNaN(v) {
			to.Record(c.Name, v)
		}
	}
}

// Switches is the number of context switches of the threads of some processes; false if that is not known.
func Switches(counted ...*Counts) (n float64, known bool) {
	for _, c := range counted {
		n += c.tally.Waits + c.tally.Preemptions
	}
	return n, !math.IsNaN(n)
}

// Busy is how many CPUs a process used on average since its start; false if that is not known.
func (c *Counts) Busy() (cpus float64, known bool) {
	cpus = (c.tally.UserTime + c.tally.SystemTime) / c.age
	return cpus, c.age > 0 && !math.IsNaN(cpus)
}

// A counter is a metric that is computed from Counts.
type counter struct {
	bench.Metric
	value   func(*Counts) float64
	combine func(values, ages []float64) float64 // combines the values of several processes
}

func (c *counter) over(all []*Counts) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	values, ages := make([]float64, len(all)), make([]float64, len(all))
	for i, one := range all {
		values[i], ages[i] = c.value(one), one.age
		if values[i] < 0 { // a counter went backward, because a relay ended: its value is unknown
			values[i] = math.NaN()
		}
	}
	return c.combine(values, ages)
}

func counters() []counter { return slices.Concat(limitCounters(), workCounters()) }

// limitCounters say what the processes waited for, and which limits they met.
func limitCounters() []counter {
	const n = "1"
	return []counter{
		share("throttled", "throttled by its CPU quota, per 100 ms",
			"Time for which its control group was throttled by its CPU quota, summed over CPUs, per 100 ms of its life.",
			func(c *Counts) float64 { return seconds(c.limitStats.Throttled) }),
		share("cpu_wait", "waiting for a CPU, per 100 ms",
			"Time for which its threads were ready to run while others ran, summed, per 100 ms of its life (schedstat).",
			func(c *Counts) float64 { return c.tally.WaitTime }),
		share("io_wait", "waiting for block devices, per 100 ms",
			"Time for which its threads waited for block devices, summed, per 100 ms of its life; "+
				"only if delay accounting is on in the kernel.",
			func(c *Counts) float64 { return c.tally.DiskTime }),
		share("io_pressure", "with a thread waiting for disks, per 100 ms",
			"Time in which at least one thread of its control group waited for a disk, per 100 ms of its life; cgroup v2 "+
				"only.",
			func(c *Counts) float64 { return seconds(c.limitStats.IOPressure) }),
		maxCounter("block_limit", "share of its block device limit that it used",
			"Its rate on a block device, as a share of the limit that its control group has there; "+
				"of several limits, the one that it came closest to. 0 without a limit.",
			(*Counts).blockUse),
		count("memory_limit", "hits of its memory limit", n,
			"How often its control group reached its memory limit, so that the kernel had to free memory first "+
				"(memory.failcnt, memory.events).",
			func(c *Counts) float64 { return number(c.limitStats.LimitHits) }),
		count("refaults", "pages evicted and read again, inside", n,
			"Pages that its control group lost for lack of memory and soon needed again (memory.stat workingset_refault).",
			func(c *Counts) float64 { return number(c.limitStats.Refaults) }),
		count("major_faults", "page faults that read from disk, inside", n, "Page faults that had to wait for a disk.",
			func(c *Counts) float64 { return c.tally.MajorFaults }),
		count("page_faults", "page faults inside", n, "Page faults, with and without a disk.",
			func(c *Counts) float64 { return c.tally.PageFaults }),
	}
}

// workCounters count what the processes did.
func workCounters() []counter {
	const s, n = "s", "1"
	return []counter{
		count("user_time", "CPU time in user mode, inside", s, "CPU time in user mode, in steps of 10 ms.",
			func(c *Counts) float64 { return c.tally.UserTime }),
		count("system_time", "CPU time in the kernel, inside", s, "CPU time in the kernel, in steps of 10 ms.",
			func(c *Counts) float64 { return c.tally.SystemTime }),
		count("waits", "waits of its threads", n, "Voluntary context switches: a thread waited, slept or yielded.",
			func(c *Counts) float64 { return c.tally.Waits }),
		count("preemptions", "preemptions of its threads", n,
			"Involuntary context switches: the kernel ran another thread, though this one could have continued.",
			func(c *Counts) float64 { return c.tally.Preemptions }),
		count("migrations", "moves of its threads to another CPU", n,
			"How often the kernel moved a thread to another CPU.",
			func(c *Counts) float64 { return c.tally.Migrations }),
		count("reads", "reading system calls inside", n, "System calls that read files, pipes and, by read(2), sockets.",
			func(c *Counts) float64 { return c.tally.Reads }),
		count("writes", "writing system calls inside", n, "System calls that write files, pipes and, by write(2), sockets.",
			func(c *Counts) float64 { return c.tally.Writes }),
		count("syscalls", "system calls inside", n,
			"System calls of its processes, for each since it last executed a program; only in a run with --syscalls.",
			func(c *Counts) float64 { return c.calls }),
		maxCounter("seccomp_filters", "seccomp filters on its system calls",
			"How many seccomp filters check each system call of the first process.",
			func(c *Counts) float64 { return c.tally.Filters }),
		count("net_packets", "network packets inside", n,
			"Packets received and sent by the interfaces of its network namespace, without loopback.",
			network(proc.NetPackets)),
		count("loopback_packets", "loopback packets inside", n, "Packets sent over loopback in its network namespace.",
			network(proc.LoopPackets)),
		count("tcp_retransmits", "TCP segments sent again, inside", n,
			"TCP segments that were retransmitted in its network namespace.", network(proc.TCPRetransmits)),
		count("udp_errors", "UDP datagrams lost in full buffers, inside", n,
			"UDP datagrams that were lost in its network namespace because a buffer was full or the datagram was damaged.",
			network(proc.UDPErrors)),
		count("link_held_back", "packets held back by a rate limit on its link", n,
			"How often a packet waited for a rate limit in a queue of an interface of its network namespace, "+
				"or of the other end of its veth (the overlimits of tc).",
			func(c *Counts) float64 { return c.queue.HeldBack }),
		count("link_drops", "packets dropped on its link", n,
			"Packets dropped in a queue of an interface of its network namespace, or of the other end of its veth.",
			func(c *Counts) float64 { return c.queue.Drops }),
		count("relay_time", "CPU time of programs that relay its packets", s,
			"CPU time of the programs that the engine started to pass packets between this container and the host: "+
				"docker-proxy, rootlessport, slirp4netns, pasta.",
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

// blockUse is the used share of a block device's limit, the largest of all devices. It
// is NaN if nothing is known about the group.
func (c *Counts) blockUse() float64 {
	if c.limitStats.Blocks == nil {
		return math.NaN()
	}
	use := 0.0
	for _, b := range c.limitStats.Blocks {
		if b.Done < 0 {
			return math.NaN()
		}
		use = max(use, b.Done/c.age/b.Limit)
	}
	return use
}

// count makes a counter whose values are summed over the processes of a trial.
func count(name, title, unit, doc string, of func(*Counts) float64) counter {
	return counter{metric(name, title, unit, doc), of, func(values, _ []float64) float64 { return sum(values) }}
}

// share makes a counter of the time that something took, in seconds per 100 ms.
func share(name, title, doc string, of func(*Counts) float64) counter {
	return counter{metric(name, title, "s", doc), of, func(values, ages []float64) float64 {
		return 0.1 * sum(values) / sum(ages)
	}}
}

// maxCounter makes a counter whose values cannot be summed: the largest one is taken.
func maxCounter(name, title, doc string, of func(*Counts) float64) counter {
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
		Doc: doc + " Counted for the processes inside, since the first of them began.",
	}
}
