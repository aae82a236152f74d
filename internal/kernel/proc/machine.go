package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// A MemoryUse is how the kernel accounts for the machine's memory at one moment, in bytes. What it
// does not tell is NaN.
type MemoryUse struct {
	Total     float64
	Available float64 // could be had without swapping: what is free, and caches that can be given up
	Kernel    float64 // the kernel's own that it cannot give up: slabs, stacks, page tables, data per CPU
}

// Memory returns how the machine's memory is used now.
func Memory(root string) (MemoryUse, error) {
	text, err := readFile(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return MemoryUse{}, err
	}
	return parseMemory(text), nil
}

func parseMemory(text []byte) MemoryUse {
	kib := func(key string) float64 { return valueOf(text, key+":") * 1024 }
	u := MemoryUse{Total: kib("MemTotal"), Available: kib("MemAvailable"), Kernel: kib("SUnreclaim")}
	for _, key := range []string{"KernelStack", "PageTables", "SecPageTables", "Percpu"} {
		if v := kib(key); !math.IsNaN(v) { // older kernels do not have all of them
			u.Kernel += v
		}
	}
	return u
}

// OnCPU is for how long and how often a thread has had a CPU. What the kernel does not count is NaN.
type OnCPU struct {
	Time  float64 // s
	Times float64 // that a thread was put on a CPU
}

// Plus adds two.
func (r OnCPU) Plus(o OnCPU) OnCPU { return OnCPU{r.Time + o.Time, r.Times + o.Times} }

// Minus subtracts what was counted before.
func (r OnCPU) Minus(before OnCPU) OnCPU {
	return OnCPU{r.Time - before.Time, r.Times - before.Times}
}

// OnCPUOf returns the counts of each present thread of a process, by the thread's number.
// errors.Is(err, fs.ErrNotExist) if there is no such process.
func OnCPUOf(root string, pid int) (map[int]OnCPU, error) {
	dir := filepath.Join(root, "proc", strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := map[int]OnCPU{}
	for _, thread := range threads {
		number, err := strconv.Atoi(thread.Name())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		text, err := readFile(filepath.Join(dir, thread.Name(), "schedstat"))
		switch {
		case err != nil && !isDir(filepath.Join(dir, thread.Name())):
			continue // it has ended meanwhile
		case errors.Is(err, fs.ErrNotExist):
			text = nil // the kernel has no such file
		case err != nil:
			return nil, fmt.Errorf("thread %d: %w", number, err)
		}
		all[number] = parseOnCPU(text)
	}
	return all, nil
}

// parseOnCPU reads the three numbers of a thread's schedstat: ns on a CPU, ns waiting for one, and
// how often it was put on one.
func parseOnCPU(text []byte) OnCPU {
	line, _ := nextLine(text)
	var v [3]float64
	if numbers(line, v[:]) < len(v) {
		return OnCPU{math.NaN(), math.NaN()}
	}
	return OnCPU{v[0] / 1e9, v[2]}
}
