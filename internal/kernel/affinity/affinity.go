// Package affinity is about the CPUs that threads run on: which are allowed, how the
// kernel lists them, how a client and a server divide them, and how much of their time
// this process has used. The agent has it in it: it imports nothing but system calls.
package affinity

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxCPU is more than any kernel numbers.
const maxCPU = 1 << 16

// Parse returns the CPUs that a list of the kernel's form names, such as "0-1,3", in its
// order. The empty list names none.
func Parse(list string) (cpus []int, err error) {
	if list == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err1 := strconv.Atoi(first)
		high, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || low < 0 || high < low || high > maxCPU {
			return nil, errors.New("want a list of CPUs, such as 0-1,3")
		}
		for cpu := low; cpu <= high; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// Format lists CPUs, in ascending order, as the kernel does: "0-1,3".
func Format(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		last := i
		for last+1 < len(cpus) && cpus[last+1] == cpus[last]+1 {
			last++
		}
		part := strconv.Itoa(cpus[i])
		if last > i {
			part += "-" + strconv.Itoa(cpus[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ",")
}

// Allowed lists the CPUs that this thread may run on, in ascending order; none if the
// kernel does not tell.
func Allowed() (cpus []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// Pin keeps this thread on some CPUs until the returned function is called, whose error
// says that the thread is still kept there. Where pinning is forbidden, or there are none,
// the thread runs anywhere it may, and takes the chances that it would have had without.
func Pin(cpus ...int) (unpin func() error) {
	var before, set unix.CPUSet
	if len(cpus) == 0 || unix.SchedGetaffinity(0, &before) != nil {
		return func() error { return nil }
	}
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if unix.SchedSetaffinity(0, &set) != nil {
		return func() error { return nil }
	}
	return func() error { return unix.SchedSetaffinity(0, &before) }
}

// Share is how many of that many CPUs one of two sides gets: as many as its threads, at
// most half of all, at least one.
func Share(cpus, threads int) int { return max(1, min(threads, cpus/2)) }

// Last returns the last n of some CPUs; all where there are no more.
func Last(cpus []int, n int) []int { return cpus[max(0, len(cpus)-n):] }

// Others returns the first n of some CPUs that are not among the taken ones; all where
// there are no more.
func Others(cpus, taken []int, n int) []int {
	free := slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return slices.Contains(taken, cpu) })
	return free[:min(n, len(free))]
}

// Apart chooses CPUs for a client among those of this process, and for a server among
// those of a list of the kernel's form, or of this process where it is empty. The server
// gets the last ones, and the client the first of the others: each its Share for that many
// threads. Without a CPU for each both are empty.
func Apart(set string, threads int) (client, server []int) {
	mine := Allowed()
	theirs := mine
	if set != "" {
		theirs, _ = Parse(set) // of a list of another form there is none to choose
	}
	return apart(mine, theirs, Share(len(mine), threads))
}

func apart(mine, theirs []int, n int) (client, server []int) {
	server = Last(theirs, n)
	client = Others(mine, server, n)
	if len(client) == 0 || len(server) == 0 {
		return nil, nil
	}
	return client, server
}

// CPUTime is the user and system time of this process so far, without its children.
func CPUTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail: the arguments are valid
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
