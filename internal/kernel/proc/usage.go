package proc

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"time"
)

// A Usage is what a process uses.
type Usage struct {
	CPU time.Duration // user and system time in steps of 10 ms, including children that it has waited for
	PSS int64         // resident bytes; shared pages count in proportion (smaps_rollup's Pss)

	notFiles int64 // the part of PSS that is not pages of files
	files    int64 // resident pages of files, shared ones in full: those of the process that has most
}

// Plus adds two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.CPU + v.CPU, u.PSS + v.PSS, u.notFiles + v.notFiles, max(u.files, v.files)}
}

// Alone is PSS as it is while nobody else has the same files in use: in PSS, the pages of a file are divided among all who
// use it, such as servers of one image in several containers. The processes of u are taken to use the same files. Before
// Linux 5.3, which does not tell the parts of PSS, it is PSS.
func (u Usage) Alone() int64 { return u.notFiles + u.files }

// UsageOf returns what a process uses now. Kernel threads and zombies have no memory. errors.Is(err,
// fs.ErrNotExist) if there is no such process.
func UsageOf(root string, pid int) (Usage, error) {
	cpu, err := CPUOf(root, pid)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{CPU: cpu}
	rollup, err := readFile(filepath.Join(root, "proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return u, err
	}
	if kib := valueOf(rollup, "Pss:"); !math.IsNaN(kib) {
		u.PSS = int64(kib) << 10
	}
	u.notFiles = u.PSS
	status, err := readFile(filepath.Join(root, "proc", strconv.Itoa(pid), "status"))
	own, files := valueOf(rollup, "Pss_Anon:")+valueOf(rollup, "Pss_Shmem:"), valueOf(status, "RssFile:")
	if !math.IsNaN(own) && !math.IsNaN(files) {
		u.notFiles, u.files = int64(own)<<10, int64(files)<<10
	}
	return u, err
}

// CPUOf returns the CPU time of UsageOf alone. The kernel walks through a process's memory to tell the rest, which
// takes milliseconds where that is large.
func CPUOf(root string, pid int) (time.Duration, error) {
	dir := filepath.Join(root, "proc", strconv.Itoa(pid))
	stat, err := readFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, err
	}
	var t Tally
	parseOwn(stat, &t)
	ticks := math.Round((t.UserTime + t.SystemTime) * userHz)
	if math.IsNaN(ticks) {
		return 0, fmt.Errorf("%s/stat: unexpected format: %.80q", dir, stat)
	}
	return time.Duration(ticks) * time.Second / userHz, nil
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
