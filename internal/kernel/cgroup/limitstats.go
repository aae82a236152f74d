package cgroup

import (
	"bytes"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A LimitStats is how often a group has reached its limits since it was made. It includes the groups
// below if the kernel adds them up. A field is Absent if there is no such count. The group of the
// whole machine has no limits.
type LimitStats struct {
	Throttled  time.Duration // time that its CPUs were stopped by the quota, added up
	LimitHits  int64         // times that memory reached its limit and had to be freed
	Refaults   int64         // pages that were read again soon after they were dropped
	IOPressure time.Duration // time in which at least one thread waited for block devices; version 2 only
	// Blocks are the limits on block devices and what was done under each, by device and kind, such
	// as "8:0 wiops". It is empty if there are none, and nil if nothing is known.
	Blocks map[string]BlockLimit
}

// A BlockLimit is a limit on operations or bytes on a block device.
type BlockLimit struct {
	Limit float64 // per second
	Done  float64 // since the group was made
}

// UnknownLimitStats is the LimitStats of a group about which nothing is known.
func UnknownLimitStats() LimitStats {
	return LimitStats{Throttled: Absent, LimitHits: Absent, Refaults: Absent, IOPressure: Absent}
}

// LimitStats reads the counts. paths are the groups by controller, as PathOf returns them.
func (h *Hierarchy) LimitStats(paths map[string]string) LimitStats {
	s := UnknownLimitStats()
	if path, ok := pathIn(paths, "cpu"); ok {
		s.Throttled = absentAtRoot(h.throttledTime(path), path)
	}
	if path, ok := pathIn(paths, "memory"); ok {
		s.LimitHits = absentAtRoot(h.limitHits(path), path)
		s.Refaults = h.refaults(path)
	}
	if path, ok := pathIn(paths, "blkio"); ok {
		s.IOPressure = h.ioPressure(path)
		s.Blocks = h.blockLimits(path)
	}
	return s
}

// Since subtracts the counts of before.
func (s LimitStats) Since(before LimitStats) LimitStats {
	s.Throttled, s.IOPressure = since(s.Throttled, before.Throttled), since(s.IOPressure, before.IOPressure)
	s.LimitHits, s.Refaults = since(s.LimitHits, before.LimitHits), since(s.Refaults, before.Refaults)
	if s.Blocks == nil {
		return s
	}
	all := map[string]BlockLimit{}
	for key, b := range s.Blocks {
		all[key] = BlockLimit{b.Limit, b.Done - before.Blocks[key].Done}
	}
	s.Blocks = all
	return s
}

func since[N int64 | time.Duration](now, before N) N {
	if now == Absent || before == Absent {
		return Absent
	}
	return now - before
}

// pathIn returns a controller's group: the version 2 group if version 1 does not have the
// controller.
func pathIn(paths map[string]string, controller string) (string, bool) {
	path, ok := paths[controller]
	if !ok {
		path, ok = paths[""]
	}
	return path, ok && check(path) == nil
}

// absentAtRoot returns 0 instead of Absent for the group of the whole machine: it has no limits, and
// some kernels do not count for it.
func absentAtRoot[N int64 | time.Duration](n N, path string) N {
	if n == Absent && path == "/" {
		return 0
	}
	return n
}

func (h *Hierarchy) limitHits(path string) int64 {
	p, err := h.controllerDir(path, "memory")
	if err != nil {
		return Absent
	}
	if !p.v2 {
		return fileInt(p.dir, "memory.failcnt")
	}
	return h.key(path, "memory", "", "memory.events")("max")
}

func (h *Hierarchy) refaults(path string) int64 {
	key := h.key(path, "memory", "memory.stat", "memory.stat")
	for _, prefix := range []string{"total_", ""} { // version 1: total_ includes the groups below
		files, anon := key(prefix+"workingset_refault_file"), key(prefix+"workingset_refault_anon")
		if files != Absent && anon != Absent {
			return files + anon
		}
	}
	return Absent
}

func (h *Hierarchy) ioPressure(path string) time.Duration {
	text, v2, err := h.read(path, "blkio", "", "io.pressure")
	if err != nil || !v2 {
		return Absent
	}
	return parsePressure(text)
}

// parsePressure reads the total of "some avg10=0.00 … total=MICROSECONDS".
func parsePressure(text []byte) time.Duration {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	_, total, ok := strings.Cut(string(line), "total=")
	us, err := strconv.ParseInt(total, 10, 64)
	if !ok || err != nil || us < 0 || us > math.MaxInt64/int64(time.Microsecond) {
		return Absent
	}
	return time.Duration(us) * time.Microsecond
}

func (h *Hierarchy) blockLimits(path string) map[string]BlockLimit {
	p, err := h.controllerDir(path, "blkio")
	if err != nil {
		return nil
	}
	read := func(file string) []byte {
		text, _ := readFile(filepath.Join(p.dir, file)) // no file, no limit
		return text
	}
	if p.v2 {
		return parseIOMax(read("io.max"), read("io.stat"))
	}
	limits := map[string]BlockLimit{}
	for _, k := range blockKinds() {
		set := read("blkio.throttle." + k.v1Limit)
		if len(set) > 0 {
			addBlkioLimits(limits, k, set, read("blkio.throttle."+k.v1Done))
		}
	}
	return limits
}

// A blockKind is one of the four limits that a block device can have.
type blockKind struct {
	name            string // in io.max of version 2
	done            string // in io.stat of version 2
	v1Limit, v1Done string // the files of version 1
	operation       string // the operation's name in v1Done
}

func blockKinds() []blockKind {
	const bytes, count = "io_service_bytes_recursive", "io_serviced_recursive"
	return []blockKind{
		{"rbps", "rbytes", "read_bps_device", bytes, "Read"},
		{"wbps", "wbytes", "write_bps_device", bytes, "Write"},
		{"riops", "rios", "read_iops_device", count, "Read"},
		{"wiops", "wios", "write_iops_device", count, "Write"},
	}
}

// addBlkioLimits reads a limit of version 1, lines "8:0 500", and what was done
// under it, lines "8:0 Write 12345".
func addBlkioLimits(to map[string]BlockLimit, k blockKind, limits, counts []byte) {
	done := map[string]float64{}
	for line := range strings.Lines(string(counts)) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == k.operation {
			done[f[0]], _ = strconv.ParseFloat(f[2], 64)
		}
	}
	for line := range strings.Lines(string(limits)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		if limit, err := strconv.ParseUint(f[1], 10, 64); err == nil && limit > 0 {
			to[f[0]+" "+k.name] = BlockLimit{float64(limit), done[f[0]]}
		}
	}
}

// parseIOMax reads the limits of version 2, lines "8:0 rbps=max wbps=max
// riops=max wiops=500", and what was done under them, lines "8:0 rbytes=4096 …".
func parseIOMax(limits, counts []byte) map[string]BlockLimit {
	done := deviceKeys(counts)
	all := map[string]BlockLimit{}
	for key, limit := range deviceKeys(limits) {
		device, name, _ := strings.Cut(key, " ")
		for _, k := range blockKinds() {
			if k.name == name && limit > 0 {
				all[key] = BlockLimit{limit, done[device+" "+k.done]}
			}
		}
	}
	return all
}

// deviceKeys reads lines DEVICE KEY=NUMBER… as numbers by "DEVICE KEY".
func deviceKeys(text []byte) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		for _, field := range f[min(1, len(f)):] {
			k, v, _ := strings.Cut(field, "=")
			if n, err := strconv.ParseUint(v, 10, 64); err == nil {
				all[f[0]+" "+k] = float64(n)
			}
		}
	}
	return all
}
