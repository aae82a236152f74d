// Package postgres is the load of a PostgreSQL server: clients that run pgbench's transactions
// over protocol 3 and time them, and a small client for statistics, settings and tables.
//
// The load has one thread for each of its CPUs. Each thread has its own connections, and waits for
// all of them at once (epoll), as the load http does. A statement is prepared once for each
// connection; then each needs one message to the server and one back, as with pgbench -M prepared.
// In a closed loop, a client begins its next transaction after the last one has ended. In an open
// loop, transactions are due at a fixed rate, whatever the server does, and each is timed from when
// it was due.
//
// The options, KEY=VALUE:
//
//	address=IP:PORT   the server; or
//	socket=DIR        the directory of its Unix socket, with port=5432
//	user, database    postgres
//	password          for the methods password, md5 and scram-sha-256; by default that of the
//	                  environment variable PGPASSWORD
//	tls=no            yes: the connection must be encrypted; the certificate is not verified
//	script            select-only, tpcb-like, simple-update (or nobranch), insert, update
//	scale=1           the scale of the tables: keys are uniform over them
//	clients=1         the number of connections
//	connect=once      each: a connection for each transaction
//	warmup, time      transactions begin to count after warmup, and end to count time later
//	rate=0            transactions per second of an open loop; 0 = a closed loop
//	seed=1            of the random keys
//	cpus              one thread on each of these; none = one thread on any CPU
//	wait=0s           how long to wait for a server that starts
//	linger=0s         connections stay open for so long after the report
//	stay=no           yes: connections stay open after the report, until the process ends, so that
//	                  the server's processes can be counted
//
// The values of its report (times in seconds):
//
//	rate                  transactions per second that ended well within time
//	transactions          the number of those that began and ended well after the warm-up
//	committed             all that ended well, with those of the warm-up and of a stretch: for a
//	                      comparison with the tables
//	delta                 the sum of the deltas that these wrote, or would have written
//	refused               all that the server refused, likewise: with committed, all that it had to do
//	offered               the rate of an open loop
//	time.p50 … p99.9      from the first statement sent, or from when it was due in an open loop, to
//	time.min, max,        the answer to the last; the distribution is "time"
//	time.mean, stddev
//	stmt.NAME.p50         of the statements of a script with several; stmt.end is the commit
//	connect.p50 …         from connecting until the server is ready, of each connection; "connect"
//	failed                transactions that the server refused, never timed; of these:
//	failed.serialization  SQLSTATE 40001
//	failed.deadlock       SQLSTATE 40P01
//	failed.other          any other; the fact "failed.other" has the first of these errors
//	client_cpu            CPU time of the client in a second, per thread
//	cpu_each              CPU time of the client for each transaction
//	per_second.rate       series of at least three whole seconds of time: transactions that ended well
//	per_second.time.mean  in each second, the mean of their times, and the longest; 0 where none ended;
//	per_second.time.max
//	per_second.time.p50   the median to within two percent, and the 99th percentile, 0 where fewer than
//	per_second.time.p99   1,000 ended
//	rate.stretch …        where it takes turns: the same in an uninterrupted stretch (Stretches)
//
// The fact "counting" is when transactions began to count (CLOCK_MONOTONIC, in nanoseconds).
//
// A connection that is lost, a select that does not return exactly one row, and a server that does
// not answer for a minute are errors of the load.
package postgres

import (
	"github.com/tare-bench/tare/internal/load"
)

// Name is the name of the load.
const Name = "postgres"

// Run runs the load without TLS.
func Run(a *load.Args) (*load.Report, error) { return RunWith(a, nil) }
