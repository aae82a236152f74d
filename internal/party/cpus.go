package party

import (
	"runtime"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// Threads is how many threads the option of that name means, as a program has to
// be told: "all" are as many as CPUs that the container may run on.
func Threads(t bench.Task) string {
	if n := t.Params["threads"]; n != "all" {
		return n
	}
	if n := len(CPUs(t.Spec.Limits.CPUSet)); n > 0 {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(runtime.NumCPU())
}

// maxCPU is more than any kernel numbers.
const maxCPU = 1 << 16

// CPUs are those in a list of the kernel's form, such as "0-1,3"; none in one that is
// empty or of another form.
func CPUs(list string) (all []int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err1 := strconv.Atoi(first)
		high, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || low < 0 || high < low || high > maxCPU {
			return nil
		}
		for cpu := low; cpu <= high; cpu++ {
			all = append(all, cpu)
		}
	}
	return all
}

// Ranges lists CPUs, in ascending order, as the kernel does: "0-1,3".
func Ranges(cpus []int) string {
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
