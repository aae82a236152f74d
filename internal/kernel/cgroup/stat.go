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
	CPU           time.Duration // CPU time in user mode and in the kernel
	ThrottledTime time.Duration // time that the group's CPUs were stopped by the quota, added up
	MemoryCurrent int64         // bytes
	OOMKills      int64         // processes killed because memory ran out
}

// Stat reads the counts. Its error wraps fs.ErrNotExist if the group does not exist; single missing
// counts are Absent.
func (h *Hierarchy) Stat(path string) (Stat, error) {
	s, err := h.CPUStat(path)
	if err != nil {
		return s, err
	}
	s.MemoryCurrent = h.count(path, "memory", "memory.usage_in_bytes", "memory.current")
	s.OOMKills = h.key(path, "memory", "memory.oom_control", "memory.events")("oom_kill")
	return s, nil
}

// CPUStat is Stat for the CPU fields alone, which saves reading two files. Every other field is
// Absent.
func (h *Hierarchy) CPUStat(path string) (Stat, error) {
	if err := check(path); err != nil {
		return Stat{}, err
	}
	if err := h.exists(path); err != nil {
		return Stat{}, err
	}
	return Stat{CPU: h.cpuTime(path), ThrottledTime: h.throttledTime(path), MemoryCurrent: Absent, OOMKills: Absent}, nil
}

// cpuTime reads version 1 in nanoseconds. cpuacct.stat counts ticks of 10 ms, which is
// too coarse for a container that lives 20 ms.
func (h *Hierarchy) cpuTime(path string) time.Duration {
	if p, err := h.controllerDir(path, "cpuacct"); err == nil && !p.v2 {
		return time.Duration(fileInt(p.dir, "cpuacct.usage"))
	}
	return microseconds(h.key(path, "cpuacct", "", "cpu.stat")("usage_usec"))
}

func (h *Hierarchy) throttledTime(path string) time.Duration {
	key := h.key(path, "cpu", "cpu.stat", "cpu.stat")
	if stopped := microseconds(key("throttled_usec")); stopped != Absent {
		return stopped
	}
	return time.Duration(key("throttled_time")) // version 1, in ns
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
