// Package proc reads the kernel's counts of what the machine did, and its data about processes and
// mounts.
//
// A Sampler is made to be read before and after each trial. It keeps its files open, reads them
// into one buffer and parses without allocating, so that reading disturbs the machine as little as
// possible. The general libraries for /proc return maps and strings, which suits an exporter but
// would cost a hundred times too much here.
//
// Every file is read below a given root, "/" or a captured tree, and reading is separate from
// parsing. Any file may be missing: what a kernel does not count is NaN, never 0.
package proc

import (
	"fmt"
	"math"
	"path/filepath"
)

// A Field is one count or level that the kernel keeps.
type Field int

// The fields, in base units: seconds, bytes, numbers. Those marked "level" are present values; all
// others only grow, from the machine's start.
const (
	// From stat. Times are over all CPUs, in steps of 10 ms.
	UserTime        Field = iota // s in user mode, low priority included
	SystemTime                   // s in the kernel, interrupts not included
	IdleTime                     // s with nothing to do
	IOWaitTime                   // s idle while something waited for a disk
	IRQTime                      // s in hardware interrupts
	SoftirqTime                  // s in software interrupts
	StealTime                    // s ready to run while the hypervisor ran others
	ContextSwitches              // switches from one thread to another
	Interrupts                   // hardware interrupts
	Softirqs                     // software interrupts
	Forks                        // processes and threads started
	Running                      // level: threads that run or are ready to run
	Blocked                      // level: threads that wait for a disk
	// From schedstat, which not every kernel has.
	CPUTime    // s on a CPU, over all CPUs, exact
	WaitTime   // s ready to run while others ran
	Timeslices // times that a thread was put on a CPU
	// From vmstat.
	PageFaults  // page faults, major ones included
	MajorFaults // page faults that needed a disk
	SwapIns     // pages read from swap
	SwapOuts    // pages written to swap
	AllocStalls // allocations that had to free memory first
	OOMKills    // processes killed because memory ran out
	// From pressure/*: time in which at least one thread (some), or all (full),
	// could not go on.
	CPUPressure    // s, some
	MemoryPressure // s, some
	MemoryFull     // s, full
	IOPressure     // s, some
	IOFull         // s, full
	// From diskstats, over whole disks that are not built on other devices.
	DiskReads      // reads that were completed
	DiskReadBytes  // B
	DiskWrites     // writes that were completed
	DiskWriteBytes // B
	DiskFlushes    // flushes of a disk's own cache
	DiskTime       // s with at least one request under way
	// From net/dev of this process's network namespace. The totals are without
	// loopback, which has its own.
	NetPackets  // packets received and sent
	NetBytes    // B received and sent
	LoopPackets // packets sent over loopback
	LoopBytes   // B sent over loopback
	// From net/softnet_stat.
	NetDrops    // packets dropped because a CPU's queue was full
	NetSqueezes // times that a CPU ran out of time for packets
	// From softirqs: software interrupts of single kinds.
	TimerSoftirqs // timers
	NetRxSoftirqs // packets received
	NetTxSoftirqs // packets sent
	BlockSoftirqs // completed requests of block devices
	// From net/snmp of this process's network namespace.
	TCPRetransmits // segments retransmitted
	UDPErrors      // datagrams lost because a buffer was full, or damaged
	// From net/stat/nf_conntrack of this process's network namespace.
	Tracked    // level: connections that the kernel tracks, for its firewall and for translating addresses
	TrackDrops // packets dropped because a connection could not be tracked
	// From meminfo.
	MemoryAvailable // level: B that could be had without swapping
	Dirty           // level: B that wait to be written to disk
	Writeback       // level: B that are being written
	Cached          // level: B of page cache
	// From loadavg.
	Load1 // level: load average over one minute
	// From cpufreq.
	Frequency // level: Hz, of the fastest of at most four groups of CPUs

	fields int = iota
)

// A Snapshot is the value of each Field; NaN if there is none.
type Snapshot [fields]float64

// clear sets every field to "none".
func (s *Snapshot) clear() {
	for i := range s {
		s[i] = math.NaN()
	}
}

// A Source is a kernel file, or a family of files, that a Sampler reads.
type Source int

// The sources. See the fields for what each gives.
const (
	Stat Source = iota
	Schedstat
	Vmstat
	Pressure
	Diskstats
	NetDev
	Softnet
	SoftirqKinds
	SNMP
	Conntrack
	Meminfo
	Loadavg
	CPUFreq
)

// A parser sets the fields that text contains, and leaves the others alone.
type parser func(text []byte, s *Snapshot)

// A file is a file that a Source reads, by its name below the root.
type file struct {
	name  string
	parse parser
}

// files lists what a source reads.
func (s Source) files(root string) []file {
	switch s {
	case Stat:
		return []file{{"proc/stat", stat()}}
	case Schedstat:
		return []file{{"proc/schedstat", parseSchedstat}}
	case Vmstat:
		return []file{{"proc/vmstat", vmstat()}}
	case Pressure:
		return []file{
			{"proc/pressure/cpu", pressure(CPUPressure, -1)}, // "full" is meaningless for the CPUs of a whole machine
			{"proc/pressure/memory", pressure(MemoryPressure, MemoryFull)},
			{"proc/pressure/io", pressure(IOPressure, IOFull)},
		}
	case Diskstats:
		return []file{{"proc/diskstats", diskstats(disks(root))}}
	case NetDev:
		return []file{{"proc/net/dev", parseNetDev}}
	case Softnet:
		return []file{{"proc/net/softnet_stat", parseSoftnet}}
	case SoftirqKinds:
		return []file{{"proc/softirqs", softirqKinds()}}
	case SNMP:
		return []file{{"proc/net/snmp", parseSNMP}}
	case Conntrack:
		return []file{{"proc/net/stat/nf_conntrack", parseConntrack}}
	case Meminfo:
		return []file{{"proc/meminfo", meminfo()}}
	case Loadavg:
		return []file{{"proc/loadavg", parseLoadavg}}
	case CPUFreq:
		return frequencies(root)
	}
	panic(fmt.Sprintf("proc: no source %d", s))
}

// disks lists the block devices that are hardware, real or virtual. It omits loop devices, device
// mapper, RAID and the like, whose requests would be counted again on the disks below them.
func disks(root string) []string {
	links, err := filepath.Glob(filepath.Join(root, "sys/block/*/device"))
	if err != nil {
		panic(err) // the pattern is constant
	}
	names := make([]string, len(links))
	for i, link := range links {
		names[i] = filepath.Base(filepath.Dir(link))
	}
	return names
}

// frequencies limits how many groups of CPUs are read, because each reading can interrupt a CPU of
// the group.
func frequencies(root string) []file {
	const most = 4
	names, err := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq"))
	if err != nil {
		panic(err) // the pattern is constant
	}
	names = names[:min(len(names), most)]
	files := make([]file, len(names))
	for i, name := range names {
		below, err := filepath.Rel(root, name)
		if err != nil {
			panic(err) // Glob's names begin with root
		}
		files[i] = file{below, parseFrequency}
	}
	return files
}
