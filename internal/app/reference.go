package app

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/supervise"
)

// MachineMetrics lists what every run records of the machine beside the metrics of its
// workload. Metrics that a run has on request alone, such as system calls, are not in it.
func MachineMetrics() []bench.Metric { return host.CounterMetrics() }

// InsideMetrics lists the counters of the processes inside, which many workloads have, and what trials
// say of themselves. In a survey the names of counters have that of the part in them, such as
// "cpu.inside.waits".
func InsideMetrics() []bench.Metric { return supervise.Counters() }

// IsInside reports whether a metric is one of those, of a workload or of a survey's part.
func IsInside(m bench.Metric) bool {
	return m.Role == bench.State || strings.HasPrefix(m.Name, supervise.Inside) ||
		strings.Contains(m.Name, "."+supervise.Inside)
}

// WorkloadsByName lists every workload in the program, in the order of the names.
func WorkloadsByName() []bench.Workload {
	all := Workloads()
	slices.SortFunc(all, func(a, b bench.Workload) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}

// MeasuredTime returns the time of a trial in which something was measured, in all parts that say so; 0 if none does.
// Metrics are those of its run.
func MeasuredTime(metrics []bench.Metric, s *bench.Sample) time.Duration {
	sum := 0.0
	for i, m := range metrics {
		if m.Name != bench.StateMeasured && !strings.HasSuffix(m.Name, "."+bench.StateMeasured) {
			continue
		}
		if v, ok := s.Value(i); ok {
			sum += v
		}
	}
	return time.Duration(sum * float64(time.Second))
}
