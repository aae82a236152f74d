package proc

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Usage is what a process uses.
type Usage struct {
	CPU time.Duration // user and system time in steps of 10 ms, including children that it has waited for
	PSS int64         // resident bytes; shared pages count in proportion (smaps_rollup's Pss)
}

// Plus adds two usages.
func (u Usage) Plus(v Usage) Usage { return Usage{u.CPU + v.CPU, u.PSS + v.PSS} }

// UsageOf returns what a process uses now. Kernel threads and zombies have no memory. errors.Is(err,
// fs.ErrNotExist) if there is no such process.
func UsageOf(root string, pid int) (Usage, error) {
	dir := filepath.Join(root, "proc", strconv.Itoa(pid))
	stat, err := readFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Usage{}, err
	}
	cpu, ok := parseCPUTime(stat)
	if !ok {
		return Usage{}, fmt.Errorf("%s/stat: unexpected format: %.80q", dir, stat)
	}
	rollup, err := readFile(filepath.Join(dir, "smaps_rollup"))
	if err != nil {
		return Usage{CPU: cpu}, err
	}
	return Usage{CPU: cpu, PSS: parsePSS(rollup)}, nil
}

// tick is the kernel's unit of time in /proc/PID/stat, USER_HZ: 100 on every
// architecture that Go runs on.
const tick = 10 * time.Millisecond

// parseCPUTime adds utime, stime, cutime and cstime of /proc/PID/stat.
func parseCPUTime(text []byte) (time.Duration, bool) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return 0, false
	}
	f := strings.Fields(string(text[end+1:]))
	if len(f) < 15 {
		return 0, false
	}
	var sum int64
	for _, field := range f[11:15] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n < 0 {
			return 0, false
		}
		sum += n
	}
	return time.Duration(sum) * tick, true
}

// parsePSS reads "Pss: N kB".
func parsePSS(text []byte) int64 {
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, "Pss:")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil || n < 0 {
			return 0
		}
		return n << 10
	}
	return 0
}

// A Tree has the processes of a machine by parent.
type Tree struct {
	parent   map[int]int
	children map[int][]int
}

// NewTree makes a tree of processes.
func NewTree(all []Process) Tree {
	t := Tree{map[int]int{}, map[int][]int{}}
	for _, p := range all {
		t.parent[p.PID] = p.Parent
		t.children[p.Parent] = append(t.children[p.Parent], p.PID)
	}
	return t
}

// Descendants returns a process and all its descendants, without the processes in but and their
// descendants.
func (t Tree) Descendants(pid int, but map[int]bool) []int {
	if _, ok := t.parent[pid]; !ok || but[pid] {
		return nil
	}
	all := []int{pid}
	// Numbers can be reused while the processes are read, so there could be a loop.
	for i := 0; i < len(all) && len(all) <= len(t.parent); i++ {
		for _, child := range t.children[all[i]] {
			if !but[child] {
				all = append(all, child)
			}
		}
	}
	return all
}

// Ancestors returns the ancestors of a process, nearest first. It stops before a process in but, and
// before the machine's first process.
func (t Tree) Ancestors(pid int, but map[int]bool) []int {
	var all []int
	for p := t.parent[pid]; p > 1 && !but[p] && len(all) < len(t.parent); p = t.parent[p] {
		all = append(all, p)
	}
	return all
}
