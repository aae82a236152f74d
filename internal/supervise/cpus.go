package supervise

import (
	"runtime"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
)

// Threads returns the number of threads that the option of that name means, as an
// argument: "all" means one for each CPU that the container may run on.
func Threads(t bench.Task) string {
	if n := t.Params["threads"]; n != "all" {
		return n
	}
	if cpus, err := affinity.Parse(t.Spec.Limits.CPUSet); err == nil && len(cpus) > 0 {
		return strconv.Itoa(len(cpus))
	}
	return strconv.Itoa(runtime.NumCPU())
}
