package proc

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// A Tally is what the kernel has counted for a process since it started. A value is NaN if this
// kernel does not count it, or does not tell this user.
type Tally struct {
	// For the process, including its ended threads and the children that it has waited for.
	UserTime    float64 // s, in steps of 10 ms
	SystemTime  float64 // s in the kernel, in steps of 10 ms
	PageFaults  float64 // major ones included
	MajorFaults float64 // those that waited for a disk
	Reads       float64 // system calls that read
	Writes      float64 // system calls that write
	// For the present threads.
	WaitTime    float64 // s ready to run while others ran
	DiskTime    float64 // s waiting for block devices, in steps of 10 ms; only with the kernel's delay accounting
	Waits       float64 // switches to another thread because this one had to wait
	Preemptions float64 // switches to another thread because its time was up
	Migrations  float64 // moves to another CPU
	// Filters is how many seccomp filters each system call of the first thread goes through. It is
	// a present value, not a count.
	Filters float64
}

// Plus adds two tallies, but keeps the larger Filters.
func (t Tally) Plus(u Tally) Tally {
	a, b := t.sums(), u.sums()
	for i := range a {
		*a[i] += *b[i]
	}
	t.Filters = max(t.Filters, u.Filters)
	return t
}

// Minus subtracts the counts of before; Filters stays as it is.
func (t Tally) Minus(before Tally) Tally {
	a, b := t.sums(), before.sums()
	for i := range a {
		*a[i] -= *b[i]
	}
	return t
}

// sums lists the fields that add up.
func (t *Tally) sums() []*float64 {
	return append(t.ofThreads(), &t.UserTime, &t.SystemTime, &t.PageFaults, &t.MajorFaults, &t.Reads, &t.Writes)
}

func (t *Tally) ofThreads() []*float64 {
	return []*float64{&t.WaitTime, &t.DiskTime, &t.Waits, &t.Preemptions, &t.Migrations}
}

// WithoutThreads is the tally without what is counted for present threads.
func (t Tally) WithoutThreads() Tally {
	for _, count := range t.ofThreads() {
		*count = math.NaN()
	}
	return t
}

// Tallies are those of several processes, by PID.
type Tallies map[int]Tally

// Sum adds them up.
func (all Tallies) Sum() Tally {
	var sum Tally
	for _, t := range all {
		sum = sum.Plus(t)
	}
	return sum
}

// Since returns what was counted since an earlier reading of the same processes and their descendants. The counts
// of threads vanish with their process: they are those of the processes that are still there.
func (all Tallies) Since(before Tallies) Tally {
	var earlier Tally
	for pid, t := range before {
		if _, there := all[pid]; !there {
			for _, count := range t.ofThreads() {
				*count = 0
			}
		}
		earlier = earlier.Plus(t)
	}
	return all.Sum().Minus(earlier)
}

// TallyOf returns the tally of a process.
// errors.Is(err, fs.ErrNotExist) if there is no such process.
func TallyOf(root string, pid int) (Tally, error) {
	var t Tally
	dir := filepath.Join(root, "proc", strconv.Itoa(pid))
	stat, err := readFile(filepath.Join(dir, "stat"))
	if err != nil {
		return t, err
	}
	parseOwn(stat, &t)
	t.Reads, t.Writes = math.NaN(), math.NaN()
	if text, err := readFile(filepath.Join(dir, "io")); err == nil {
		t.Reads, t.Writes = valueOf(text, "syscr:"), valueOf(text, "syscw:")
	}
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		return t, err
	}
	delays := delaysAreCounted(root)
	for _, thread := range threads {
		t.addThread(filepath.Join(dir, "task", thread.Name()), delays)
	}
	t.Filters = filters(dir)
	return t, nil
}

// addThread adds the counts of one thread. It ignores a thread that ends meanwhile.
func (t *Tally) addThread(dir string, delays bool) {
	one := Tally{DiskTime: math.NaN()}
	schedstat, _ := readFile(filepath.Join(dir, "schedstat")) // if it does not exist, nothing is added
	_, rest := nextField(schedstat)
	waited, _ := nextField(rest)
	one.WaitTime = number(waited) / 1e9
	one.addSwitches(dir)
	if delays {
		stat, _ := readFile(filepath.Join(dir, "stat")) // as above
		one.DiskTime = statColumn(stat, 42) / userHz
	}
	if isDir(dir) {
		*t = t.Plus(one)
	}
}

// addSwitches reads one file for all counts if the kernel has it, because these files are
// expensive.
func (t *Tally) addSwitches(dir string) {
	sched, _ := readFile(filepath.Join(dir, "sched"))
	t.Migrations += valueOf(sched, "se.nr_migrations")
	if len(sched) > 0 {
		t.Waits += valueOf(sched, "nr_voluntary_switches")
		t.Preemptions += valueOf(sched, "nr_involuntary_switches")
		return
	}
	status, _ := readFile(filepath.Join(dir, "status"))
	t.Waits += valueOf(status, "voluntary_ctxt_switches:")
	t.Preemptions += valueOf(status, "nonvoluntary_ctxt_switches:")
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// delaysAreCounted reports whether the kernel's delay accounting is on, which counts how long
// threads wait for block devices.
func delaysAreCounted(root string) bool {
	text, err := readFile(filepath.Join(root, "proc/sys/kernel/task_delayacct"))
	return err == nil && string(bytes.TrimSpace(text)) == "1"
}

// filters returns how many seccomp filters a process has. Kernels before 5.9 tell only whether
// there are any.
func filters(dir string) float64 {
	status, _ := readFile(filepath.Join(dir, "status"))
	if n := valueOf(status, "Seccomp_filters:"); !math.IsNaN(n) {
		return n
	}
	return min(valueOf(status, "Seccomp:"), 1)
}

// parseOwn reads what /proc/PID/stat counts for the whole process.
func parseOwn(text []byte, t *Tally) {
	t.MajorFaults = statColumn(text, 12) + statColumn(text, 13)
	t.PageFaults = statColumn(text, 10) + statColumn(text, 11) + t.MajorFaults
	t.UserTime = (statColumn(text, 14) + statColumn(text, 16)) / userHz
	t.SystemTime = (statColumn(text, 15) + statColumn(text, 17)) / userHz
}

// statColumn reads a column of /proc/PID/stat by its number in proc(5), from 3 on; NaN if it is not
// a number. The second column is a name with arbitrary characters.
func statColumn(text []byte, column int) float64 {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return math.NaN()
	}
	var field []byte
	rest := bytes.TrimRight(text[end+1:], "\n")
	for range column - 2 {
		field, rest = nextField(rest)
	}
	return number(field)
}

// valueOf reads the number after key on a line of its own, with or without a colon; NaN if there is
// none.
func valueOf(text []byte, key string) float64 {
	for name, rest := range entries(text) {
		if string(name) != key {
			continue
		}
		value, rest := nextField(rest)
		if string(value) == ":" {
			value, _ = nextField(rest)
		}
		return number(value)
	}
	return math.NaN()
}

// Descendants returns a process and all its descendants, and examines no other process.
// errors.Is(err, fs.ErrNotExist) if there is no such process, or if the kernel does not list
// children.
func Descendants(root string, pid int) ([]int, error) {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		children, err := childrenOf(root, all[i])
		if err != nil && i == 0 {
			return nil, err
		}
		for _, child := range children {
			if !slices.Contains(all, child) { // a number can be reused
				all = append(all, child)
			}
		}
	}
	return all, nil
}

// childrenOf reads the children of every thread of a process.
func childrenOf(root string, pid int) ([]int, error) {
	dir := filepath.Join(root, "proc", strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, thread := range threads {
		text, err := readFile(filepath.Join(dir, thread.Name(), "children"))
		if err != nil {
			return all, err
		}
		all = append(all, Numbers(text)...)
	}
	return all, nil
}

// Numbers reads process numbers between blanks, as of cgroup.procs. It leaves out 0,
// which stands for a process outside this PID namespace.
func Numbers(text []byte) (all []int) {
	for word := range bytes.FieldsSeq(text) {
		if n, err := strconv.Atoi(string(word)); err == nil && n > 0 {
			all = append(all, n)
		}
	}
	return all
}

// Network returns the counts of a process's network namespace: the fields of NetDev, SNMP and
// Conntrack. All others are NaN, and so are those of missing files.
func Network(root string, pid int) (s Snapshot) {
	s.clear()
	dir := filepath.Join(root, "proc", strconv.Itoa(pid))
	for _, f := range []file{
		{"net/dev", parseNetDev}, {"net/snmp", parseSNMP}, {"net/stat/nf_conntrack", parseConntrack},
	} {
		if text, err := readFile(filepath.Join(dir, f.name)); err == nil {
			f.parse(text, &s)
		}
	}
	if !math.IsNaN(s[LoopPackets]) && math.IsNaN(s[NetPackets]) {
		s[NetPackets], s[NetBytes] = 0, 0 // the namespace has no other interface
	}
	return s
}
