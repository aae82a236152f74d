package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxFile bounds what is read of one file about a process.
const maxFile = 4 << 20

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// A Process is one process. PID and Start together name it for as long as the
// machine runs; a PID alone is used again.
type Process struct {
	PID    int
	Parent int
	State  byte   // as the kernel's letter: R, S, D, Z, T, …
	Start  uint64 // when it started, in ticks of 10 ms since the machine did
}

// Find returns a process. errors.Is(err, fs.ErrNotExist) if there is none.
func Find(root string, pid int) (Process, error) {
	name := filepath.Join(root, "proc", strconv.Itoa(pid), "stat")
	text, err := readFile(name)
	if errors.Is(err, unix.ESRCH) { // it ended between open and read
		err = fmt.Errorf("%s: %w", name, os.ErrNotExist)
	}
	if err != nil {
		return Process{}, err
	}
	p, ok := parseProcess(text)
	if !ok {
		return Process{}, fmt.Errorf("%s: not as the kernel writes it: %.80q", name, text)
	}
	return p, nil
}

// parseProcess reads /proc/PID/stat. The second column is a name that may hold
// anything, blanks and brackets too, so columns are counted from its end.
func parseProcess(text []byte) (p Process, ok bool) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return p, false
	}
	f := strings.Fields(string(text[end+1:]))
	if len(f) < 20 || len(f[0]) != 1 {
		return p, false
	}
	var errs [3]error
	p.PID, errs[0] = strconv.Atoi(strings.TrimSpace(string(text[:open])))
	p.State = f[0][0]
	p.Parent, errs[1] = strconv.Atoi(f[1])
	p.Start, errs[2] = strconv.ParseUint(f[19], 10, 64)
	return p, errors.Join(errs[:]...) == nil
}

// All returns every process, in order of PID. Those that end meanwhile are
// left out.
func All(root string) ([]Process, error) {
	dir := filepath.Join(root, "proc")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid <= 0 {
			continue
		}
		p, err := Find(root, pid)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Process) int { return a.PID - b.PID })
	return all, nil
}

// Descendants returns the children of a process, their children and so on,
// parents before children.
func Descendants(root string, pid int) ([]Process, error) {
	all, err := All(root)
	if err != nil {
		return nil, err
	}
	children := map[int][]Process{}
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	// The table was not read in one instant, so it may hold a circle.
	seen := map[int]bool{pid: true}
	var found []Process
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			if !seen[p.PID] {
				seen[p.PID] = true
				found = append(found, p)
				next = append(next, p.PID)
			}
		}
	}
	return found, nil
}

// A MarkedProcess is a process that was started with a variable in its
// environment.
type MarkedProcess struct {
	Process
	Value string // of the variable
}

// Marked finds the processes that were started with the variable key in their
// environment, children that inherited it included. Processes of other users
// that may not be looked at are left out.
func Marked(root, key string) ([]MarkedProcess, error) {
	all, err := All(root)
	if err != nil {
		return nil, err
	}
	var found []MarkedProcess
	for _, p := range all {
		text, err := readFile(filepath.Join(root, "proc", strconv.Itoa(p.PID), "environ"))
		if err != nil {
			continue // ended, or not ours to look at
		}
		if value, ok := parseEnviron(text, key); ok {
			found = append(found, MarkedProcess{p, value})
		}
	}
	return found, nil
}

// parseEnviron looks key up among the KEY=VALUE that NULs separate.
func parseEnviron(text []byte, key string) (string, bool) {
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if k, v, ok := bytes.Cut(entry, []byte("=")); ok && string(k) == key {
			return string(v), true
		}
	}
	return "", false
}

// Usage is what a process has used since it began.
type Usage struct {
	User, System time.Duration // of all its threads, in user mode and in the kernel
	MaxRSS       int64         // bytes: the most memory it had at once
}

// Self returns what this process has used, its children not included.
func Self() (Usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return Usage{}, fmt.Errorf("getrusage: %w", err)
	}
	// ru_maxrss is no use: it survives exec, so that it tells of the shell.
	text, err := readFile("/proc/self/status")
	if err != nil {
		return Usage{}, err
	}
	return Usage{
		User:   time.Duration(r.Utime.Nano()),
		System: time.Duration(r.Stime.Nano()),
		MaxRSS: parsePeak(text),
	}, nil
}

// parsePeak finds VmHWM, the peak of resident memory, in /proc/PID/status.
func parsePeak(text []byte) int64 {
	for len(text) > 0 {
		var line []byte
		line, text = nextLine(text)
		if key, rest := nextField(line); string(key) == "VmHWM:" {
			value, _ := nextField(rest)
			kb, err := strconv.ParseInt(string(value), 10, 64)
			if err == nil && kb >= 0 && kb < 1<<50 {
				return kb * 1024
			}
		}
	}
	return 0
}
