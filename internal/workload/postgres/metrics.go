package postgres

import (
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	load "github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/text/unit"
)

// The metrics of the trial as a whole.
const (
	Ready      = "postgres.ready"
	copyTime   = "postgres.copy"
	memoryRest = "postgres.memory_rest"
)

// The metrics of a part, after its name and a point.
const (
	Rate         = "rate"
	Median       = "time.p50"
	transactions = "transactions"
	failed       = "failed"
	offered      = "offered"
	clientCPU    = "client_cpu"
	walEach      = "server.wal"
	pagesEach    = "server.full_pages"
	syncsEach    = "server.syncs"
	syncEach     = "server.sync_time"
	hitRatio     = "hit_ratio"
	readsEach    = "server.reads"
	checkpoints  = "checkpoints"
	checkpoint   = "checkpoint"
	deadlocks    = "deadlocks"
	tempBytes    = "temp_bytes"
	cpuEach      = "server.cpu"
	switchesEach = "server.switches"
	memoryLoad   = "memory_load"
)

func metric(
	name, title, unit string, better bench.Direction, scale bench.Scale, doc string,
) bench.Metric {
	return bench.Metric{Name: name, Title: title, Unit: unit, Better: better, Role: bench.Detail, Scale: scale, Doc: doc}
}

// counter is what the server or the kernel counted for it, as a reason for what clients saw.
func counter(name, title, unit, doc string) bench.Metric {
	m := metric(name, title, unit, bench.Neither, bench.Difference, doc)
	m.Role = bench.Counter
	return m
}

// state is what the trial was like. It is neither compared nor a reason.
func state(name, title, unit, doc string) bench.Metric {
	m := metric(name, title, unit, bench.Neither, bench.Difference, doc)
	m.Role = bench.State
	return m
}

// Metrics implements bench.Workload.
func (workload) Metrics() []bench.Metric {
	var primary, rest []bench.Metric
	for _, name := range allParts() {
		for _, m := range partMetrics(name) {
			if m.Role == bench.Primary {
				primary = append(primary, m)
			} else {
				rest = append(rest, m)
			}
		}
	}
	return slices.Concat(primary, trialMetrics(), rest)
}

// primaryOf is the metric of a part that decides: with one client its times, else its rate.
func primaryOf(name string) string {
	if name == partRead1 {
		return Median
	}
	return Rate
}

func partMetrics(name string) []bench.Metric {
	all := slices.Concat(loadMetrics(), serverMetrics())
	if name != partWrite1 && name != partWrite {
		all = bench.WithStretches(all, load.Stretches()...)
	}
	if name != partRead1 && name != partRead {
		all = slices.Concat(all, writeMetrics(), statementMetrics())
	}
	if name != partRead1 && name != partWrite1 {
		all = slices.Concat(all, sweepMetrics())
	}
	all = append(all, supervise.Counters()...)
	for i := range all {
		if all[i].Name == primaryOf(name) {
			all[i].Role = bench.Primary
		}
		all[i].Name = name + "." + all[i].Name
		if all[i].StretchOf != "" {
			all[i].StretchOf = name + "." + all[i].StretchOf
		}
		all[i].Title += ", " + name
	}
	return all
}

// loadMetrics are what the clients saw.
func loadMetrics() []bench.Metric {
	const s, n = "s", "1"
	time := func(which, words string) bench.Metric {
		return metric("time."+which, words, s, bench.Lower, bench.Ratio,
			"Of the times from the first statement sent, in the open loop from when the transaction was due, to the answer to "+
				"its last statement.")
	}
	return []bench.Metric{
		metric(Rate, "transactions per second", "1/s", bench.Higher, bench.Ratio,
			"Transactions whose end was acknowledged within the measured time, per second."),
		time("p50", "median time"), time("p90", "90th percentile"), time("p95", "95th percentile"),
		time("p99", "99th percentile"), time("p99.9", "99.9th percentile"), time("max", "longest time"),
		time("mean", "mean time"), time("stddev", "standard deviation of the times"),
		metric("connect.p50", "median time to connect", s, bench.Lower, bench.Ratio,
			"From the beginning of a connection until the server is ready for the first statement, of all connections."),
		metric("connect.mean", "mean time to connect", s, bench.Lower, bench.Ratio,
			"The mean of the same, which pgbench calls its average connection time if each transaction has a connection."),
		metric(transactions, "transactions", n, bench.Neither, bench.Difference,
			"Transactions that began and ended well after the warm-up."),
		metric(offered, "transactions due per second", "1/s", bench.Neither, bench.Ratio,
			"In the open loop: the requested rate."),
		metric(failed, "failed transactions", n, bench.Lower, bench.Difference,
			"Transactions that the server refused. No time and no rate includes them."),
		metric(failed+".serialization", "failed: serialization", n, bench.Lower, bench.Difference,
			"Failed transactions with SQLSTATE 40001."),
		metric(failed+".deadlock", "failed: deadlock", n, bench.Lower, bench.Difference,
			"Failed transactions with SQLSTATE 40P01."),
		metric(failed+".other", "failed: other", n, bench.Lower, bench.Difference,
			"Failed transactions with any other SQLSTATE."),
		metric(clientCPU, "CPU of the clients", n, bench.Lower, bench.Difference,
			"User and system time of the client's process per second, divided by the number of its CPUs: 1 is all that it "+
				"could have."),
	}
}

// serverMetrics are what the server and the kernel counted for every part.
func serverMetrics() []bench.Metric {
	const s, n, b = "s", "1", "B"
	return []bench.Metric{
		counter(cpuEach, "CPU time of the server per transaction", s,
			"User and system time of the server's processes from before the warm-up to after the last answer, divided by "+
				"the number of transactions."),
		counter(switchesEach, "context switches of the server per transaction", n,
			"Waits and preemptions of the server's processes that served the part, divided by the number of transactions."),
		metric(memoryLoad, "memory of the server under load", b, bench.Lower, bench.Ratio,
			"Resident memory of the server's processes, after the last answer and before the clients disconnect: shared "+
				"buffers count once, as far as one of these processes has used them, and files as if nobody else used "+
				"them. Missing in a sweep."),
		metric(hitRatio, "share of pages found in shared buffers", n, bench.Higher, bench.Difference,
			"Pages of tables and indexes found in shared buffers, as a share of all that were asked for "+
				"(pg_stat_database)."),
		counter(readsEach, "pages read per transaction", n,
			"Pages that the server read from the kernel, divided by the number of transactions (pg_stat_database)."),
		metric(checkpoints, "checkpoints", n, bench.Neither, bench.Difference,
			"Checkpoints that began during the part; 0 with settings steady."),
		state(checkpoint, "share of the time with a checkpoint under way", n,
			"Of the whole seconds of the measured time, by the lines of the server's log; missing below three seconds."),
		metric(deadlocks, "deadlocks", n, bench.Lower, bench.Difference, "Deadlocks during the part (pg_stat_database)."),
		metric(tempBytes, "bytes of temporary files", b, bench.Lower, bench.Difference,
			"Bytes that the server wrote to temporary files during the part (pg_stat_database)."),
	}
}

// writeMetrics are what the server wrote.
func writeMetrics() []bench.Metric {
	const s, n, b = "s", "1", "B"
	return []bench.Metric{
		counter(walEach, "WAL per transaction", b,
			"Bytes by which the end of the WAL advanced, divided by the number of transactions."),
		counter(pagesEach, "full pages in the WAL per transaction", n,
			"Images of whole pages written to the WAL, divided by the number of transactions (pg_stat_wal)."),
		counter(syncsEach, "syncs of the WAL per transaction", n,
			"How often the server forced the WAL to the disk, divided by the number of transactions (pg_stat_wal, from "+
				"version 18 pg_stat_io)."),
		counter(syncEach, "time in syncs of the WAL per transaction", s,
			"Time in which the server forced the WAL to the disk, divided by the number of transactions."),
	}
}

// sweepMetrics are those of each number of clients.
func sweepMetrics() []bench.Metric {
	const s, n = "s", "1"
	all := []bench.Metric{metric("knee", "clients at the knee", n, bench.Neither, bench.Ratio,
		"Of a sweep: the fewest clients that reach 95 % of its highest rate.")}
	for _, clients := range sweepable() {
		c, with := stepSuffix(clients), " with "+unit.FormatCount(clients, "client")
		all = append(all,
			metric(Rate+c, "transactions per second"+with, "1/s", bench.Higher, bench.Ratio, "Rate of a step of a sweep."),
			metric(Median+c, "median time"+with, s, bench.Lower, bench.Ratio, "Median time of a step of a sweep."),
			metric("time.p99"+c, "99th percentile"+with, s, bench.Lower, bench.Ratio,
				"99th percentile of the times of a step of a sweep."),
			metric(clientCPU+c, "CPU of the clients"+with, n, bench.Lower, bench.Difference,
				"CPU of the clients in a step of a sweep: 1 is all that they could have."),
			counter(switchesEach+c, "context switches of the server per transaction"+with, n,
				"Waits and preemptions of the server's processes in a step of a sweep, divided by the number of its transactions."))
	}
	return all
}

// statements are those of the scripts that write, and end, which is the commit.
func statements() []string {
	return []string{"begin", "update_accounts", "select", "update_tellers", "update_branches", "insert_history", "end"}
}

// statementMetrics are the times of single statements.
func statementMetrics() []bench.Metric {
	var all []bench.Metric
	for _, name := range statements() {
		all = append(all, metric("stmt."+name+".p50", "median time of "+name, "s", bench.Lower, bench.Ratio,
			"Median of the times from sending this statement to the answer to it; end is the commit."))
	}
	return all
}

func trialMetrics() []bench.Metric {
	const s, b = "s", "B"
	return []bench.Metric{
		metric(Ready, "time until ready", s, bench.Lower, bench.Ratio,
			"From the moment when the launcher executes the server until it has answered the first query. With entry=image "+
				"it executes the image's entry point, which makes a cluster first."),
		metric(copyTime, "copy of the cluster", s, bench.Lower, bench.Ratio,
			"Time in which the launcher copied the cluster to the cell's storage and forced it to the disk."),
		metric(memoryRest, "memory of the server at rest", b, bench.Lower, bench.Ratio,
			"Resident memory of the server's processes before the first part, counted as under load. It has hardly any of "+
				"the shared buffers, since the processes that serve clients, which use them, are not there yet."),
	}
}
