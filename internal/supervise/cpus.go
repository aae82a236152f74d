package supervise

import (
	"runtime"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
)

// Threads is how many threads the option of that name means, as a program has to
// be told: "all" are as many as CPUs that the container may run on.
func Threads(t bench.Task) string {
	if n := t.Params["threads"]; n != "all" {
		return n
	}
	if cpus, err := affinity.Parse(t.Spec.Limits.CPUSet); err == nil && len(cpus) > 0 {
		return strconv.Itoa(len(cpus))
	}
	return strconv.Itoa(runtime.NumCPU())
}
