package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Process is one process. PID and Start together identify it until the machine restarts; a PID
// alone can be reused.
type Process struct {
	PID    int
	Parent int
	Group  int    // process group
	State  byte   // as the kernel's letter: R, S, D, Z, T, …
	Start  uint64 // start time, in ticks of 10 ms since the machine started
	Kernel bool   // a thread of the kernel, which has no program
}

// Find returns a process. errors.Is(err, fs.ErrNotExist) if there is none.
func Find(root string, pid int) (Process, error) {
	name := filepath.Join(root, "proc", strconv.Itoa(pid), "stat")
	text, err := readFile(name)
	if errors.Is(err, unix.ESRCH) { // the process ended between open and read
		err = fmt.Errorf("%s: %w", name, os.ErrNotExist)
	}
	if err != nil {
		return Process{}, err
	}
	p, ok := parseProcess(text)
	if !ok {
		return Process{}, fmt.Errorf("%s: unexpected format: %.80q", name, text)
	}
	return p, nil
}

// IsRunning reports whether a process with that number exists and has not ended. A zombie does not run.
func IsRunning(root string, pid int) bool {
	p, err := Find(root, pid)
	return err == nil && p.State != 'Z'
}

// Name is the name that the kernel has for a process; empty if it has ended.
func Name(pid int) string {
	text, _ := readFile(filepath.Join("/proc", strconv.Itoa(pid), "comm")) // empty says it
	return string(bytes.TrimSpace(text))
}

// Args are the words of a process's command line; none if it has ended, or may not be looked at.
func Args(pid int) []string {
	text, err := readFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// ArgAfter is the word that follows another in a command line, also as WORD=VALUE; empty
// if there is none.
func ArgAfter(args []string, word string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, word+"="); ok {
			return value
		}
		if arg == word && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// kernelThread is the flag PF_KTHREAD of a task.
const kernelThread = 0x0020_0000

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
	var errs [5]error
	var flags uint64
	p.PID, errs[0] = strconv.Atoi(strings.TrimSpace(string(text[:open])))
	p.State = f[0][0]
	p.Parent, errs[1] = strconv.Atoi(f[1])
	p.Group, errs[2] = strconv.Atoi(f[2])
	p.Start, errs[3] = strconv.ParseUint(f[19], 10, 64)
	flags, errs[4] = strconv.ParseUint(f[6], 10, 64)
	p.Kernel = flags&kernelThread != 0
	return p, errors.Join(errs[:]...) == nil
}

// All returns every process, in order of PID. It omits processes that end meanwhile or that this
// user may not inspect.
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
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
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

// A MarkedProcess is a process that was started with a variable in its
// environment.
type MarkedProcess struct {
	Process
	Value string // of the variable
}

// Marked finds the processes that were started with the variable key in their
// environment, children that inherited it included. It omits processes of other users that this
// user may not inspect.
func Marked(root, key string) ([]MarkedProcess, error) {
	all, err := All(root)
	if err != nil {
		return nil, err
	}
	var found []MarkedProcess
	for _, p := range all {
		if value, ok := environMark(root, p.PID, key); ok {
			found = append(found, MarkedProcess{p, value})
		}
	}
	return found, nil
}

// FindMarked is Find for a process that was started with the variable key in its environment. A
// process that has ended has lost its environment, even if its parent has not waited for it.
func FindMarked(root string, pid int, key string) (p MarkedProcess, ok bool) {
	found, err := Find(root, pid)
	if err != nil {
		return p, false
	}
	value, ok := environMark(root, pid, key)
	return MarkedProcess{found, value}, ok
}

// environMark reads the variable key of a process. It returns false too if the process has ended or this
// user may not inspect it.
func environMark(root string, pid int, key string) (string, bool) {
	text, err := readFile(filepath.Join(root, "proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return "", false
	}
	return parseEnviron(text, key)
}

// parseEnviron looks up key in a list of KEY=VALUE, separated by NULs.
func parseEnviron(text []byte, key string) (string, bool) {
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if k, v, ok := bytes.Cut(entry, []byte("=")); ok && string(k) == key {
			return string(v), true
		}
	}
	return "", false
}
