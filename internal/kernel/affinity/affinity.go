// Package affinity handles the CPUs that threads run on: which are allowed, how the kernel lists
// them, how a client and a server divide them, and how much CPU time this process has used. It is
// part of the agent, so it imports nothing but system calls.
package affinity

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxCPU is higher than any CPU number.
const maxCPU = 1 << 16

// Parse returns the CPUs in a list of the kernel's form, such as "0-1,3", in the list's order. An
// empty list has no CPUs.
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
			return nil, errors.New("not a list of CPUs: write it like 0-1,3")
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

// Pin keeps this thread on the given CPUs until unpin is called. If unpin returns an error, the
// thread is still pinned. If pinning is forbidden or no CPUs are given, Pin does nothing and the
// thread runs on any CPU that it may use.
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

// Share is the number of CPUs that one of two sides gets: as many as it has threads, at least one,
// and at most half of all.
func Share(cpus, threads int) int { return max(1, min(threads, cpus/2)) }

// Last returns the last n CPUs; all if there are fewer.
func Last(cpus []int, n int) []int { return cpus[max(0, len(cpus)-n):] }

// Others returns the first n CPUs that are not in taken; all of these if there are fewer.
func Others(cpus, taken []int, n int) []int {
	free := slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return slices.Contains(taken, cpu) })
	return free[:min(n, len(free))]
}

// Apart chooses separate CPUs for a client and a server. The server's come from set, a list of the
// kernel's form, or from this process's CPUs if set is empty; it gets the last ones. The client
// gets the first of this process's other CPUs. Each side gets its Share for that many threads. Both
// are empty if there is not one CPU for each.
func Apart(set string, threads int) (client, server []int) {
	mine := Allowed()
	theirs := mine
	if set != "" {
		theirs, _ = Parse(set) // no CPUs if the list is malformed
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
