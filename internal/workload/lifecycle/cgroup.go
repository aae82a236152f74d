package lifecycle

import (
	"context"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// cgroupMetrics returns the counters of the container's own cgroup.
func cgroupMetrics() []bench.Metric {
	counter := func(name, title, doc string) bench.Metric {
		return bench.Metric{
			Name: name, Title: title, Unit: "s", Better: bench.Lower, Role: bench.Counter, Scale: bench.Difference, Doc: doc,
		}
	}
	return []bench.Metric{
		counter("cgroup.cpu_time", "CPU time inside the container", "User and system time of the container's cgroup."),
		counter("cgroup.throttled_time", "time throttled by the CPU quota",
			"Time for which the quota kept the container's cgroup from running."),
	}
}

// recordCgroup reports the counters of the container's cgroup, if the cgroup outlives
// the process. It is no error if there is none: many engines remove the cgroup with the
// process.
func (l *lifecycleRun) recordCgroup(ctx context.Context) {
	cgrouper, ok := bench.As[bench.Cgrouper](l.engine)
	if !ok {
		return
	}
	path, err := cgrouper.Cgroup(ctx, l.container)
	if err != nil {
		return
	}
	if l.cgroups == nil {
		return
	}
	h, err := l.cgroups()
	if err != nil {
		return
	}
	stat, err := h.CPUStat(path)
	if err != nil {
		return
	}
	l.count("cgroup.cpu_time", stat.CPU)
	l.count("cgroup.throttled_time", stat.ThrottledTime)
}

func (l *lifecycleRun) count(metric string, d time.Duration) {
	if d != cgroup.Absent {
		l.values[metric] = d.Seconds()
	}
}
