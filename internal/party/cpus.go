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
	if n := cpus(t.Spec.Limits.CPUSet); n > 0 {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(runtime.NumCPU())
}

// maxCPU is more than any kernel numbers.
const maxCPU = 1 << 16

// cpus is how many CPUs a list of the kernel's form has, such as "0-1,3"; 0 for
// one that is empty or of another form.
func cpus(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err1 := strconv.Atoi(first)
		high, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || low < 0 || high < low || high > maxCPU {
			return 0
		}
		n += high - low + 1
	}
	return n
}
