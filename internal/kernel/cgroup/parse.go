package cgroup

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/kernel/proc"
)

// maxFile limits what is read from a kernel file, in bytes. Only cgroup.procs of a group with
// hundreds of thousands of processes is larger, and tare makes none.
const maxFile = 4 << 20

func readFile(name string) ([]byte, error) { return proc.ReadFile(name, maxFile) }

// A mountEntry is a line of mountinfo that mounts a cgroup hierarchy.
type mountEntry struct {
	mount
	v2          bool
	controllers []string // of version 1; none for named hierarchies
}

// entriesOf finds the cgroup hierarchies among mounts.
func entriesOf(mounts []proc.Mount) []mountEntry {
	var entries []mountEntry
	for _, m := range mounts {
		e := mountEntry{mount: mount{device: m.Device, point: m.Point, base: m.Root}}
		switch m.Type {
		case "cgroup2":
			e.v2 = true
		case "cgroup":
			e.controllers = v1Controllers(m.Super)
			if name, named := m.Option("name"); named {
				e.key = "name=" + name
			} else if len(e.controllers) > 0 {
				e.key = e.controllers[0]
			}
		default:
			continue
		}
		entries = append(entries, e)
	}
	return entries
}

// v1Controllers returns the controllers among a mount's options, which also contain ro, rw, xattr,
// noprefix, name=… and the like.
func v1Controllers(options string) []string {
	var found []string
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "cpu", "cpuacct", "cpuset", "memory", "pids", "blkio", "devices", "freezer",
			"hugetlb", "net_cls", "net_prio", "perf_event", "rdma", "misc":
			found = append(found, o)
		}
	}
	return found
}

// parseProcCgroup reads /proc/PID/cgroup: lines ID:CONTROLLER[,CONTROLLER…]:PATH, without a
// controller for version 2. The key of a named hierarchy is "name=…".
func parseProcCgroup(text []byte) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			paths[c] = f[2]
		}
	}
	return paths
}

// parseKeys reads a flat keyed file, such as cpu.stat: lines KEY VALUE. It skips values that are
// not whole numbers.
func parseKeys(text []byte) map[string]int64 {
	m := map[string]int64{}
	for line := range bytes.Lines(text) {
		k, v, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if n, err := strconv.ParseInt(string(v), 10, 64); ok && err == nil {
			m[string(k)] = n
		}
	}
	return m
}

// parseInt reads a file that holds one number. "max" is math.MaxInt64, and so is a number that does
// not fit: version 1 prints "no limit" as a huge number.
func parseInt(text []byte) (int64, error) {
	s := string(bytes.TrimSpace(text))
	if s == "max" {
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && n != math.MaxInt64 {
		return 0, fmt.Errorf("not a number: %.40q", s)
	}
	return n, nil
}

// parseCPUMax reads cpu.max of version 2, "QUOTA PERIOD" or "max PERIOD" in
// microseconds, as a number of CPUs; 0 is no limit.
func parseCPUMax(text []byte) (float64, error) {
	f := strings.Fields(string(text))
	if len(f) != 2 {
		return 0, fmt.Errorf("not a quota and a period: %.40q", text)
	}
	quota, err1 := parseInt([]byte(f[0]))
	period, err2 := parseInt([]byte(f[1]))
	if err1 != nil || err2 != nil || period <= 0 {
		return 0, fmt.Errorf("not a quota and a period: %.40q", text)
	}
	return quotaCPUs(quota, period), nil
}

// quotaCPUs turns a quota per period, both in microseconds, into CPUs.
// No limit is -1 on version 1 and "max" on version 2.
func quotaCPUs(quota, period int64) float64 {
	if quota <= 0 || quota == math.MaxInt64 || period <= 0 {
		return 0
	}
	return float64(quota) / float64(period)
}
