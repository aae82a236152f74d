package proc

import (
	"bytes"
	"math"
	"slices"
)

// The parsers below are called between trials. They allocate nothing, and skip what they do not
// know instead of failing, because kernels add lines and columns.

// userHz is the unit of times in /proc/stat. It is part of the kernel's ABI
// and 100 on every architecture that Go supports, whatever CONFIG_HZ is.
const userHz = 100

// sector is the unit of /proc/diskstats, whatever the disk's own is.
const sector = 512

// add adds v to a field that is a sum over several lines or files.
func (s *Snapshot) add(f Field, v float64) {
	if math.IsNaN(s[f]) {
		s[f] = 0
	}
	s[f] += v
}

// byKey returns the parser of a file of lines "KEY NUMBER…": it adds a value of each line, the first
// number or what read makes of it, to the field of its key.
func byKey(read func(rest []byte) float64, fields map[string]Field) parser {
	return func(text []byte, s *Snapshot) { parseByKey(text, read, fields, s) }
}

func parseByKey(text []byte, read func([]byte) float64, fields map[string]Field, s *Snapshot) {
	for key, rest := range entries(text) {
		if f, ok := fields[string(key)]; ok {
			s.add(f, read(rest))
		}
	}
}

// stat returns the parser of stat: times of all CPUs, and counts.
func stat() parser {
	counts := byKey(first, map[string]Field{
		"ctxt": ContextSwitches, "intr": Interrupts, "softirq": Softirqs, "processes": Forks,
		"procs_running": Running, "procs_blocked": Blocked,
	})
	return func(text []byte, s *Snapshot) {
		line, _ := nextLine(text)
		if key, rest := nextField(line); string(key) == "cpu" {
			parseTimes(rest, s)
		}
		counts(text, s)
	}
}

// parseTimes reads the first line of stat: user nice system idle iowait irq
// softirq steal guest guest_nice, the last two of which are part of the first.
func parseTimes(line []byte, s *Snapshot) {
	var t [8]float64
	if numbers(line, t[:]) < len(t) {
		return
	}
	s[UserTime] = (t[0] + t[1]) / userHz
	for i, f := range [...]Field{SystemTime, IdleTime, IOWaitTime, IRQTime, SoftirqTime, StealTime} {
		s[f] = t[i+2] / userHz
	}
}

// parseSchedstat adds up the lines "cpuN …", whose columns 7 to 9 are the time
// on the CPU and the time waiting for it, in ns, and the number of timeslices.
func parseSchedstat(text []byte, s *Snapshot) {
	for key, rest := range entries(text) {
		var v [9]float64
		if !bytes.HasPrefix(key, []byte("cpu")) || numbers(rest, v[:]) < len(v) {
			continue
		}
		s.add(CPUTime, v[6]/1e9)
		s.add(WaitTime, v[7]/1e9)
		s.add(Timeslices, v[8])
	}
}

func vmstat() parser {
	return byKey(first, map[string]Field{
		"pgfault": PageFaults, "pgmajfault": MajorFaults, "pswpin": SwapIns, "pswpout": SwapOuts, "oom_kill": OOMKills,
		"allocstall_dma": AllocStalls, "allocstall_dma32": AllocStalls, "allocstall_normal": AllocStalls,
		"allocstall_movable": AllocStalls, "allocstall_device": AllocStalls,
	})
}

// pressure returns the parser of a pressure file, whose lines begin with
// "some" and "full" and end with the total in µs. A negative Field is skipped.
func pressure(some, full Field) parser {
	return func(text []byte, s *Snapshot) { parsePressure(text, some, full, s) }
}

func parsePressure(text []byte, some, full Field, s *Snapshot) {
	for key, rest := range entries(text) {
		_, total, ok := bytes.Cut(rest, []byte("total="))
		switch {
		case !ok:
		case string(key) == "some" && some >= 0:
			s[some] = number(total) / 1e6
		case string(key) == "full" && full >= 0:
			s[full] = number(total) / 1e6
		}
	}
}

// diskstats returns the parser of diskstats for the disks of these names. The
// columns are those of Documentation/admin-guide/iostats.rst, which counts
// them from the name on.
func diskstats(disks []string) parser {
	return func(text []byte, s *Snapshot) { parseDiskstats(text, disks, s) }
}

func parseDiskstats(text []byte, disks []string, s *Snapshot) {
	for _, rest := range entries(text) { // each begins with the major number
		_, rest = nextField(rest) // minor
		name, rest := nextField(rest)
		if !contains(disks, name) {
			continue
		}
		var v [16]float64
		n := numbers(rest, v[:])
		if n < 11 {
			continue
		}
		s.add(DiskReads, v[0])
		s.add(DiskReadBytes, v[2]*sector)
		s.add(DiskWrites, v[4])
		s.add(DiskWriteBytes, v[6]*sector)
		s.add(DiskTime, v[9]/1e3)
		if n == len(v) { // since Linux 5.5
			s.add(DiskFlushes, v[15])
		}
	}
}

// contains is slices.Contains for a name that is not yet a string.
func contains(names []string, name []byte) bool {
	return slices.Contains(names, string(name))
}

// parseNetDev reads lines "NAME: " with eight columns of what was received,
// then eight of what was sent; bytes and packets come first in each.
func parseNetDev(text []byte, s *Snapshot) {
	for line := range lines(text) {
		colon := bytes.LastIndexByte(line, ':')
		if colon < 0 {
			continue // the two lines of headings
		}
		var v [16]float64
		if numbers(line[colon+1:], v[:]) < len(v) {
			continue
		}
		if name, _ := nextField(line[:colon]); string(name) == "lo" {
			s.add(LoopBytes, v[8])
			s.add(LoopPackets, v[9])
			continue
		}
		s.add(NetBytes, v[0]+v[8])
		s.add(NetPackets, v[1]+v[9])
	}
}

// parseSoftnet reads one line for each CPU: packets processed, dropped, and
// how often time ran out, in hexadecimal.
func parseSoftnet(text []byte, s *Snapshot) {
	for _, rest := range entries(text) {
		dropped, rest := nextField(rest)
		squeezed, _ := nextField(rest)
		if len(squeezed) > 0 {
			s.add(NetDrops, hex(dropped))
			s.add(NetSqueezes, hex(squeezed))
		}
	}
}

// softirqKinds returns the parser of softirqs, lines "KIND: " with a count for each CPU.
func softirqKinds() parser {
	return byKey(sum, map[string]Field{
		"TIMER:": TimerSoftirqs, "NET_RX:": NetRxSoftirqs, "NET_TX:": NetTxSoftirqs, "BLOCK:": BlockSoftirqs,
	})
}

// parseSNMP reads pairs of lines, "Tcp: NAME…" and "Tcp: NUMBER…".
func parseSNMP(text []byte, s *Snapshot) {
	for len(text) > 0 {
		var names, values []byte
		names, text = nextLine(text)
		values, text = nextLine(text)
		protocol, names := nextField(names)
		again, values := nextField(values)
		if !bytes.Equal(protocol, again) {
			return
		}
		for len(names) > 0 {
			var name, value []byte
			name, names = nextField(names)
			value, values = nextField(values)
			addSNMP(string(protocol), string(name), value, s)
		}
	}
}

func addSNMP(protocol, name string, value []byte, s *Snapshot) {
	switch {
	case protocol == "Tcp:" && name == "RetransSegs":
		s[TCPRetransmits] = number(value)
	case protocol == "Udp:" && (name == "InErrors" || name == "SndbufErrors"):
		s.add(UDPErrors, number(value)) // RcvbufErrors are among InErrors
	}
}

// parseConntrack reads a line of names, and below it one of numbers for each
// CPU, in hexadecimal. The number of entries is the same in all of them.
func parseConntrack(text []byte, s *Snapshot) {
	heading, text := nextLine(text)
	for line := range lines(text) {
		for names := heading; len(names) > 0 && len(line) > 0; {
			var name, value []byte
			name, names = nextField(names)
			value, line = nextField(line)
			switch string(name) {
			case "entries":
				s[Tracked] = hex(value)
			case "insert_failed", "drop", "early_drop":
				s.add(TrackDrops, hex(value))
			}
		}
	}
}

func meminfo() parser {
	kB := func(rest []byte) float64 { return first(rest) * 1024 } // always, although it says "kB"
	return byKey(kB, map[string]Field{
		"MemAvailable:": MemoryAvailable, "Dirty:": Dirty, "Writeback:": Writeback, "Cached:": Cached,
	})
}

func parseLoadavg(text []byte, s *Snapshot) {
	s[Load1] = first(text)
}

// parseFrequency reads a scaling_cur_freq, in kHz, and keeps the highest of
// those read so far.
func parseFrequency(text []byte, s *Snapshot) {
	field, _ := nextLine(text)
	if hz := number(field) * 1e3; !(s[Frequency] >= hz) && !math.IsNaN(hz) {
		s[Frequency] = hz
	}
}
