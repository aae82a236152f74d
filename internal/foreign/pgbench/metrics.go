package pgbench

import (
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// Workload is the workload of tare that measures what pgbench measures, and Subject what all cells
// of imported results are called. Metrics have that workload's names.
const (
	Workload = "postgres"
	Subject  = "postgres"
)

// Percentiles are those of the times that are kept, as the metrics are called.
func Percentiles() []float64 { return []float64{50, 90, 95, 99, 99.9} }

// Metrics are what results of pgbench, and of programs that run it, can tell.
func Metrics() []bench.Metric {
	const s, n, b = "s", "1", "B"
	time := func(which, words string, role bench.Role) bench.Metric {
		return metric("time."+which, words, s, bench.Lower, role, "Of the times from the first statement sent, with a rate "+
			"from when the transaction was due, to the answer to its last statement.")
	}
	const detail, counter = bench.Detail, bench.Counter
	return []bench.Metric{
		metric("rate", "transactions per second", "1/s", bench.Higher, bench.Primary,
			"Transactions that ended well, per second."),
		time("p50", "median time", bench.Primary), time("mean", "mean time", detail),
		time("p90", "90th percentile", detail), time("p95", "95th percentile", detail),
		time("p99", "99th percentile", detail), time("p99.9", "99.9th percentile", detail),
		time("max", "longest time", detail), time("stddev", "standard deviation of the times", detail),
		metric("lag", "late start", s, bench.Lower, detail,
			"Mean delay of a transaction's start behind the moment when it was due."),
		metric("connect.mean", "mean time to connect", s, bench.Lower, detail,
			"From the beginning of a connection until the server is ready, with a connection for each transaction."),
		metric("connect.all", "time until all clients were connected", s, bench.Lower, detail,
			"From the beginning of the first connection until the last client had its own, with connections that stay open."),
		metric("transactions", "transactions", n, bench.Neither, detail, "Transactions that ended well."),
		metric("skipped", "skipped transactions", n, bench.Lower, detail,
			"Transactions that did not begin, because they were later than the limit."),
		metric("failed", "failed transactions", n, bench.Lower, detail,
			"Transactions that ended with an error, and were not tried again."),
		metric("retries", "retries", n, bench.Lower, detail, "Repetitions of transactions after an error."),
		metric("database", "size of the database", b, bench.Neither, detail, "Size of the database at the end."),
		metric("wal_each", "WAL per transaction", b, bench.Lower, detail,
			"Bytes by which the end of the WAL advanced, divided by the number of transactions."),
		metric("hit_ratio", "share of pages found in shared buffers", n, bench.Higher, detail,
			"Pages of tables and indexes found in shared buffers, as a share of all that were asked for (pg_stat_database)."),
		metric("reads_each", "pages read per transaction", n, bench.Lower, detail,
			"Pages that the server read from the kernel, divided by the number of transactions (pg_stat_database)."),
		metric("checkpoints", "checkpoints", n, bench.Neither, detail, "Checkpoints, timed and requested."),
		metric("deadlocks", "deadlocks", n, bench.Lower, detail, "Deadlocks (pg_stat_database)."),
		metric("temp_bytes", "bytes of temporary files", b, bench.Lower, detail,
			"Bytes that the server wrote to temporary files (pg_stat_database)."),
		metric("buffers.alloc", "buffers allocated", n, bench.Neither, counter, "Buffers that the server allocated."),
		metric("buffers.checkpoint", "buffers written at checkpoints", n, bench.Neither, counter,
			"Buffers that checkpoints wrote."),
		metric("buffers.clean", "buffers written in the background", n, bench.Neither, counter,
			"Buffers that the background writer wrote."),
		metric("buffers.backend", "buffers written by backends", n, bench.Neither, counter,
			"Buffers that backends had to write themselves."),
		metric("dirty", "dirty memory", b, bench.Neither, counter, "Most dirty memory of the client's machine."),
	}
}

// InitMetrics are what the making of the tables can tell.
func InitMetrics() []bench.Metric {
	all := []bench.Metric{metric("init.time", "time to make the tables", "s", bench.Lower, bench.Primary,
		"Time that pgbench took to make and fill its tables.")}
	for _, step := range []string{
		"drop tables", "create tables", "client-side generate", "server-side generate", "vacuum", "primary keys",
		"foreign keys",
	} {
		all = append(all, metric(initMetric(step), step, "s", bench.Lower, bench.Detail, "Time of the step "+step+"."))
	}
	return append(all, metric("database", "size of the database", "B", bench.Neither, bench.Detail,
		"Size of the database at the end."))
}

// initMetric is the name of the metric of a step.
func initMetric(step string) string {
	if step == "all" {
		return "init.time"
	}
	return "init." + strings.NewReplacer(" ", "_", "-", "_").Replace(step)
}

// part is the part of the workload that runs any script: it begins the names of metrics.
const part = "load."

// metric declares a metric. What can be 0 is subtracted.
func metric(name, title, unit string, better bench.Direction, role bench.Role, doc string) bench.Metric {
	scale := bench.Ratio
	if unit == "1" || unit == "B" || name == "lag" || name == "time.stddev" {
		scale = bench.Difference
	}
	return bench.Metric{Name: part + name, Title: title, Unit: unit, Better: better, Role: role, Scale: scale, Doc: doc}
}

// PerSecond is the name of the series that has a value of a metric for each second, by its name without the part.
func PerSecond(metric string) string { return part + bench.PerSecond + metric }

// Put gives a trial a value of a metric, by its name without the part.
func Put(t *foreign.Trial, metric string, value float64) { t.Set(part+metric, value) }

// Get returns a value that Put has put.
func Get(t *foreign.Trial, metric string) (value float64, ok bool) {
	value, ok = t.Values[part+metric]
	return value, ok
}
