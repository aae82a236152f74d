package cgroup

import (
	"path/filepath"
	"time"
)

// Absent is the value of a Stat's field that this kernel does not count for the group. It is not 0,
// because 0 is a count.
const Absent = -1

// Stat is what the kernel has counted for a group and the groups below it since the group was made.
// A field is Absent if there is no such count.
type Stat struct {
	CPU, User, System time.Duration // CPU time: total, in user mode, in the kernel

	Periods       int64         // periods of the CPU quota that ended
	Throttled     int64         // those periods in which the group had to stop
	ThrottledTime time.Duration // time that the group's CPUs were stopped by the quota, added up

	MemoryCurrent, MemoryPeak int64 // bytes
	PidsCurrent, PidsPeak     int64 // processes and threads
	OOMKills                  int64 // processes killed because memory ran out

	ReadBytes, WriteBytes int64 // bytes on block devices
	Reads, Writes         int64 // operations on block devices
}

// Stat reads the counts. Its error wraps fs.ErrNotExist if the group does not exist; single missing
// counts are Absent.
func (h *Hierarchy) Stat(path string) (Stat, error) {
	if err := check(path); err != nil {
		return Stat{}, err
	}
	if err := h.exists(path); err != nil {
		return Stat{}, err
	}
	var s Stat
	s.CPU, s.User, s.System = h.cpuTime(path)
	s.Periods, s.Throttled, s.ThrottledTime = h.throttling(path)
	s.MemoryCurrent = h.count(path, "memory", "memory.usage_in_bytes", "memory.current")
	s.MemoryPeak = h.count(path, "memory", "memory.max_usage_in_bytes", "memory.peak")
	s.PidsCurrent = h.count(path, "pids", "pids.current", "pids.current")
	s.PidsPeak = h.count(path, "pids", "pids.peak", "pids.peak")
	s.OOMKills = h.key(path, "memory", "memory.oom_control", "memory.events")("oom_kill")
	h.io(path, &s)
	return s, nil
}

// CPUStat is Stat for the CPU fields alone, which saves reading six files. Every other field is
// Absent.
func (h *Hierarchy) CPUStat(path string) (Stat, error) {
	if err := check(path); err != nil {
		return Stat{}, err
	}
	if err := h.exists(path); err != nil {
		return Stat{}, err
	}
	s := Stat{
		MemoryCurrent: Absent, MemoryPeak: Absent, PidsCurrent: Absent, PidsPeak: Absent, OOMKills: Absent,
		ReadBytes: Absent, WriteBytes: Absent, Reads: Absent, Writes: Absent,
	}
	s.CPU, s.User, s.System = h.cpuTime(path)
	s.Periods, s.Throttled, s.ThrottledTime = h.throttling(path)
	return s, nil
}

// cpuTime reads the version 1 files in nanoseconds. cpuacct.stat counts ticks of 10 ms, which is
// too coarse for a container that lives 20 ms.
func (h *Hierarchy) cpuTime(path string) (total, user, system time.Duration) {
	if p, err := h.controllerDir(path, "cpuacct"); err == nil && !p.v2 {
		return time.Duration(fileInt(p.dir, "cpuacct.usage")),
			time.Duration(fileInt(p.dir, "cpuacct.usage_user")),
			time.Duration(fileInt(p.dir, "cpuacct.usage_sys"))
	}
	key := h.key(path, "cpuacct", "", "cpu.stat")
	return microseconds(key("usage_usec")), microseconds(key("user_usec")), microseconds(key("system_usec"))
}

func (h *Hierarchy) throttling(path string) (periods, throttled int64, stopped time.Duration) {
	key := h.key(path, "cpu", "cpu.stat", "cpu.stat")
	stopped = microseconds(key("throttled_usec"))
	if stopped == Absent {
		stopped = time.Duration(key("throttled_time")) // version 1, in ns
	}
	return key("nr_periods"), key("nr_throttled"), stopped
}

func (h *Hierarchy) io(path string, s *Stat) {
	s.ReadBytes, s.WriteBytes, s.Reads, s.Writes = Absent, Absent, Absent, Absent
	p, err := h.controllerDir(path, "blkio")
	if err != nil {
		return
	}
	if p.v2 {
		if text, err := readFile(filepath.Join(p.dir, "io.stat")); err == nil {
			c := parseIOStat(text)
			s.ReadBytes, s.WriteBytes, s.Reads, s.Writes = c.readBytes, c.writeBytes, c.reads, c.writes
		}
		return
	}
	if text, err := readFile(filepath.Join(p.dir, "blkio.throttle.io_service_bytes_recursive")); err == nil {
		s.ReadBytes, s.WriteBytes = parseBlkio(text)
	}
	if text, err := readFile(filepath.Join(p.dir, "blkio.throttle.io_serviced_recursive")); err == nil {
		s.Reads, s.Writes = parseBlkio(text)
	}
}

// key reads a flat keyed file and returns a look-up, which returns Absent for missing keys.
func (h *Hierarchy) key(path, controller, v1, v2 string) func(string) int64 {
	text, _, err := h.read(path, controller, v1, v2)
	if err != nil {
		text = nil // an unreadable file gives absent counts
	}
	keys := parseKeys(text)
	return func(key string) int64 {
		if n, ok := keys[key]; ok {
			return n
		}
		return Absent
	}
}

func (h *Hierarchy) count(path, controller, v1, v2 string) int64 {
	p, err := h.controllerDir(path, controller)
	if err != nil {
		return Absent
	}
	if p.v2 {
		return fileInt(p.dir, v2)
	}
	return fileInt(p.dir, v1)
}

func fileInt(dir, file string) int64 {
	text, err := readFile(filepath.Join(dir, file))
	if err != nil {
		return Absent
	}
	n, err := parseInt(text)
	if err != nil {
		return Absent
	}
	return n
}

// microseconds turns a count of microseconds into a duration, and keeps Absent.
func microseconds(us int64) time.Duration {
	if us == Absent {
		return Absent
	}
	return time.Duration(us) * time.Microsecond
}
