package host

import "github.com/tare-bench/tare/internal/bench"

// CounterMetrics lists what Counters report, without opening anything.
func CounterMetrics() []bench.Metric { return (&Counters{quantities: quantities()}).Metrics() }
