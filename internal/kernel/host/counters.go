package host

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Counters reads the kernel's counters of the whole machine before and after each trial, and the
// machine's state at the beginning. It is a bench.Instrument; Begin and End allocate nothing.
type Counters struct {
	counters, state *proc.Sampler // state is nil if the machine tells none
	quantities      []quantity
	before, after   proc.Snapshot
	earlier         proc.Snapshot // what was counted before the last Suspend
	levels          proc.Snapshot
}

var _ bench.Switcher = (*Counters)(nil)

// OpenCounters opens the kernel's files below root.
func OpenCounters(root string) (*Counters, error) {
	counters, err := proc.Open(root, proc.Stat, proc.Schedstat, proc.Vmstat, proc.Pressure, proc.Diskstats, proc.NetDev,
		proc.Softnet, proc.SoftirqKinds, proc.SNMP, proc.Conntrack)
	if err != nil {
		return nil, fmt.Errorf("counters of the host: %w", err)
	}
	c := &Counters{counters: counters, quantities: quantities(), levels: unknownSnapshot()}
	if s, err := proc.Open(root, proc.Meminfo, proc.Loadavg, proc.CPUFreq); err == nil {
		c.state = s
	} // otherwise these values are absent, as any other
	return c, nil
}

// unknownSnapshot is the snapshot of a machine that tells nothing.
func unknownSnapshot() (s proc.Snapshot) {
	for i := range s {
		s[i] = math.NaN()
	}
	return s
}

// Metrics lists what End reports, the same on every machine.
func (c *Counters) Metrics() []bench.Metric {
	metrics := make([]bench.Metric, len(c.quantities))
	for i, q := range c.quantities {
		metrics[i] = q.Metric
	}
	return metrics
}

// Begin is called just before a trial. It reads the counters last, so that they do not count the
// reading of the state.
func (c *Counters) Begin(bench.Trial, time.Duration) {
	if c.state != nil {
		c.state.Read(&c.levels)
	}
	c.counters.Read(&c.before)
	c.levels[proc.Running], c.levels[proc.Blocked] = c.before[proc.Running], c.before[proc.Blocked]
	c.earlier = proc.Snapshot{}
}

// Suspend implements bench.Switcher. What a counter has when it goes backward stays unknown.
func (c *Counters) Suspend() (resume func()) {
	c.counters.Read(&c.after)
	earlier, levels := c.earlier, c.levels
	for _, q := range c.quantities {
		since := c.after[q.field] - c.before[q.field]
		if since < 0 && !q.level {
			since = math.NaN()
		}
		earlier[q.field] += since
	}
	return func() {
		c.earlier, c.levels = earlier, levels
		c.counters.Read(&c.before)
	}
}

// End is called just after a trial. dst is parallel to Metrics. A value is NaN if this machine does
// not tell it, or if a counter went backward; a level may fall.
func (c *Counters) End(dst []float64) {
	c.counters.Read(&c.after)
	for i, q := range c.quantities {
		if q.Role == bench.State {
			dst[i] = c.levels[q.field]
			continue
		}
		dst[i] = c.after[q.field] - c.before[q.field]
		dst[i] += c.earlier[q.field]
		if dst[i] < 0 && !q.level { // packets of an interface that was removed, or a hypervisor that corrects its count
			dst[i] = math.NaN()
		}
	}
}

// Close closes the files.
func (c *Counters) Close() error {
	if c.state == nil {
		return c.counters.Close()
	}
	return errors.Join(c.counters.Close(), c.state.Close())
}

// A quantity is a metric and the field of /proc that it comes from.
type quantity struct {
	bench.Metric
	field proc.Field
	level bool // of a counter: its value can also fall
}

// quantities is everything that is read. All but the states are of the whole
// machine, from just before to just after a trial.
func quantities() []quantity {
	all := slices.Concat(threadQuantities(), pressureQuantities(), deviceQuantities(), states())
	for i := range all {
		switch all[i].field {
		case proc.StealTime, proc.OOMKills, proc.NetDrops:
			all[i].Better = bench.Lower // never wanted, whatever caused it
		}
	}
	return all
}

// The units, and the scales: a ratio for quantities that are never 0.
const (
	s, b, n = "s", "B", "1"
	ratio   = bench.Ratio
	diff    = bench.Difference
)

// threadQuantities count what threads and CPUs did.
func threadQuantities() []quantity {
	return []quantity{
		counter(proc.ContextSwitches, "context_switches", "context switches", n, ratio,
			"switches of a CPU from one thread to another"),
		counter(proc.Forks, "forks", "processes and threads started", n, ratio, "processes and threads that were started"),
		counter(proc.PageFaults, "page_faults", "page faults", n, ratio, "page faults, with and without a disk"),
		counter(proc.MajorFaults, "major_faults", "page faults that read from disk", n, diff,
			"page faults that had to wait for a disk"),
		counter(proc.UserTime, "user_time", "CPU time in programs", s, diff,
			"time that all CPUs spent in user mode, in steps of 10 ms"),
		counter(proc.SystemTime, "system_time", "CPU time in the kernel", s, diff,
			"time that all CPUs spent in the kernel for programs, in steps of 10 ms"),
		counter(proc.CPUTime, "cpu_time", "total CPU time", s, ratio, "time that all CPUs spent on threads, exact"),
		counter(proc.WaitTime, "cpu_wait", "waiting for a CPU", s, diff,
			"time that threads were ready to run while others ran, added up"),
		counter(proc.StealTime, "steal_time", "CPU time taken by the hypervisor", s, diff,
			"time that this virtual machine was ready to run while the hypervisor ran others"),
		counter(proc.IRQTime, "irq_time", "CPU time in hardware interrupts", s, diff,
			"time that all CPUs spent in hardware interrupts, in steps of 10 ms"),
		counter(proc.SoftirqTime, "softirq_time", "CPU time in software interrupts", s, diff,
			"time that all CPUs spent in software interrupts, such as network packets, in steps of 10 ms"),
		counter(proc.IOWaitTime, "iowait_time", "CPUs idle while waiting for disks", s, diff,
			"time that CPUs were idle while a thread of theirs waited for a disk, in steps of 10 ms"),
		counter(proc.Interrupts, "interrupts", "hardware interrupts", n, ratio, "hardware interrupts that CPUs answered"),
		counter(proc.Softirqs, "softirqs", "software interrupts", n, ratio, "software interrupts that CPUs handled"),
	}
}

// pressureQuantities count waiting, and what scarce memory does.
func pressureQuantities() []quantity {
	return []quantity{
		counter(proc.CPUPressure, "cpu_pressure", "time with a thread waiting for a CPU", s, diff,
			"time in which at least one thread waited for a CPU"),
		counter(proc.MemoryPressure, "memory_pressure", "time with a thread waiting for memory", s, diff,
			"time in which at least one thread waited for memory"),
		counter(proc.MemoryFull, "memory_pressure_full", "time with every thread waiting for memory", s, diff,
			"time in which every thread that was not idle waited for memory"),
		counter(proc.IOPressure, "io_pressure", "time with a thread waiting for disks", s, diff,
			"time in which at least one thread waited for a disk"),
		counter(proc.IOFull, "io_pressure_full", "time with every thread waiting for disks", s, diff,
			"time in which every thread that was not idle waited for a disk"),
		counter(proc.AllocStalls, "allocation_stalls", "allocations that had to free memory", n, diff,
			"allocations of memory that had to free some first"),
		counter(proc.SwapIns, "swap_ins", "pages read from swap", n, diff, "pages that were read from swap"),
		counter(proc.SwapOuts, "swap_outs", "pages written to swap", n, diff, "pages that were written to swap"),
		counter(proc.OOMKills, "oom_kills", "processes killed because memory ran out", n, diff,
			"processes that the kernel killed because memory ran out"),
	}
}

// deviceQuantities count what disks and networks did.
func deviceQuantities() []quantity {
	return []quantity{
		counter(proc.DiskReads, "disk_reads", "disk reads", n, diff, "reads that the disks completed"),
		counter(proc.DiskReadBytes, "disk_read_bytes", "bytes read from disk", b, diff,
			"bytes that were read from the disks"),
		counter(proc.DiskWrites, "disk_writes", "disk writes", n, diff, "writes that the disks completed"),
		counter(proc.DiskWriteBytes, "disk_write_bytes", "bytes written to disk", b, diff,
			"bytes that were written to the disks"),
		counter(proc.DiskFlushes, "disk_flushes", "disk cache flushes", n, diff,
			"times that a disk was told to write out its own cache, as fsync does"),
		counter(proc.DiskTime, "disk_time", "time with the disks busy", s, diff,
			"time in which a disk had at least one request, added up over disks"),
		counter(proc.NetPackets, "net_packets", "network packets", n, diff,
			"packets received and sent by all network interfaces but loopback, virtual ones included"),
		counter(proc.NetBytes, "net_bytes", "network bytes", b, diff,
			"bytes received and sent by all network interfaces but loopback, virtual ones included"),
		counter(proc.LoopPackets, "loopback_packets", "loopback packets", n, diff,
			"packets sent over the host's loopback interface"),
		counter(proc.LoopBytes, "loopback_bytes", "loopback bytes", b, diff, "bytes sent over the host's loopback interface"),
		counter(proc.NetDrops, "net_drops", "packets dropped in a full queue", n, diff,
			"packets that were dropped because a CPU's queue of them was full"),
		counter(proc.NetSqueezes, "net_squeezes", "times that packets had to wait for a CPU", n, diff,
			"times that a CPU had used up its time for packets and left some for later"),
		counter(proc.TimerSoftirqs, "softirqs.timer", "software interrupts for timers", n, diff,
			"software interrupts that handled timers"),
		counter(proc.NetRxSoftirqs, "softirqs.net_rx", "software interrupts for packets received", n, diff,
			"software interrupts that handled packets received, virtual interfaces and loopback included"),
		counter(proc.NetTxSoftirqs, "softirqs.net_tx", "software interrupts for packets sent", n, diff,
			"software interrupts that handled packets to be sent"),
		counter(proc.BlockSoftirqs, "softirqs.block", "software interrupts of disks", n, diff,
			"software interrupts that handled completed disk requests"),
		counter(proc.TCPRetransmits, "tcp_retransmits", "TCP segments retransmitted", n, diff,
			"TCP segments that sockets of the host's network namespace retransmitted"),
		counter(proc.UDPErrors, "udp_errors", "UDP datagrams lost in full buffers", n, diff,
			"UDP datagrams that were lost because a buffer was full, or that were damaged, "+
				"at sockets of the host's network namespace"),
		levelChange(proc.Tracked, "tracked", "connections tracked", n, diff,
			"change in the number of connections that the kernel tracked in the host's network namespace, "+
				"for its firewall and NAT; negative means fewer"),
		counter(proc.TrackDrops, "track_drops", "packets dropped by connection tracking", n, diff,
			"packets that were dropped because their connection could not be tracked"),
	}
}

// states say what the host was like when the trial began.
func states() []quantity {
	return []quantity{
		state(proc.Load1, "load", "load average", n, diff, "load average over one minute"),
		state(proc.Running, "running", "threads ready to run", n, diff, "threads that ran or could run, tare's own included"),
		state(proc.Blocked, "blocked", "threads waiting for disks", n, diff, "threads that waited for a disk"),
		state(proc.MemoryAvailable, "memory_available", "available memory", b, ratio,
			"memory that was available without swapping"),
		state(proc.Cached, "page_cache", "page cache", b, ratio, "memory that held contents of files"),
		state(proc.Dirty, "dirty", "data not yet on disk", b, diff,
			"file contents in memory that had not been written to disk"),
		state(proc.Writeback, "writeback", "data on its way to disk", b, diff,
			"file contents that were being written to disk"),
		state(proc.Frequency, "cpu_frequency", "CPU frequency", "1/s", ratio,
			"frequency of the fastest of at most four groups of CPUs"),
	}
}

func counter(field proc.Field, name, title, unit string, scale bench.Scale, doc string) quantity {
	return quantity{Metric: bench.Metric{
		Name: "host." + name, Title: title, Unit: unit, Better: bench.Neither, Role: bench.Counter, Scale: scale,
		Doc: doc + ", on the whole machine from just before the trial to just after it",
	}, field: field}
}

// levelChange is the change of a level during the trial, up or down.
func levelChange(field proc.Field, name, title, unit string, scale bench.Scale, doc string) quantity {
	q := counter(field, name, title, unit, scale, doc)
	q.level = true
	return q
}

func state(field proc.Field, name, title, unit string, scale bench.Scale, doc string) quantity {
	return quantity{Metric: bench.Metric{
		Name: "host." + name, Title: title + " at the beginning", Unit: unit, Better: bench.Neither,
		Role: bench.State, Scale: scale,
		Doc: doc + ", just before the trial",
	}, field: field}
}
