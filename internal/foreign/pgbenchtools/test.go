package pgbenchtools

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/pgbench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A test is all that is known of one test. Everything but its key may be missing.
type test struct {
	key      key
	row      *testRow
	tree     *testDir
	bgwriter *bgwriter
	database *database
	settings map[string]string
	series   map[string][]float64 // values of each second
}

// set is the number of its testset; empty = unknown.
func (t *test) set() string {
	if t.row == nil {
		return ""
	}
	return t.row.set
}

// isInit reports whether it made tables, and measured nothing else.
func (t *test) isInit() bool {
	if t.row != nil {
		return strings.HasPrefix(t.row.script, ":-i")
	}
	return t.tree != nil && t.tree.output != nil && t.tree.output.Init != nil
}

// isOther reports whether it ran osm2pgsql, whose tps are thousands of nodes per second.
func (t *test) isOther() bool { return t.row != nil && strings.HasPrefix(t.row.script, "osm") }

// version is that of the server; empty = unknown.
func (t *test) version() string {
	if t.row != nil && t.row.version != "" {
		return t.row.version
	}
	if t.tree != nil {
		return t.tree.version
	}
	return ""
}

// major is the version as PostgreSQL numbers it, such as 90300 for 9.3 and 170000 for 17; 0 = unknown.
func (t *test) major() int {
	first, rest, _ := strings.Cut(t.version(), ".")
	n := leading(first)
	if n >= 10 {
		return n * 10000
	}
	second, _, _ := strings.Cut(rest, ".")
	return n*10000 + leading(second)*100
}

// leading is the number that a text begins with; 0 = none.
func leading(s string) int {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		s = s[:end]
	}
	n, _ := strconv.Atoi(s) // 0 is right where there is none
	return n
}

// trial makes a trial of the test, and counts what was corrected.
func (t *test) trial(found *corrections) (foreign.Trial, error) {
	if t.row == nil {
		return t.treeTrial(found)
	}
	trial := foreign.Trial{Where: t.row.where, Began: t.row.began, Levels: t.levels()}
	if t.row.ended.After(t.row.began) {
		trial.Elapsed = t.row.ended.Sub(t.row.began)
	}
	switch {
	case !(t.row.tps > 0):
		trial.Failed = "its rate is 0"
	case t.row.ended.IsZero() && !t.row.endless:
		trial.Failed = "it has no end"
	}
	if trial.Failed != "" {
		return trial, nil
	}
	if t.isInit() {
		pgbench.Put(&trial, "init.time", trial.Elapsed.Seconds())
		pgbench.Put(&trial, "database", t.row.size)
		return trial, t.addInit(&trial)
	}
	t.addRow(&trial, found)
	t.addStatistics(&trial, found)
	if err := t.addTree(&trial, found); err != nil {
		return trial, err
	}
	trial.Series = append(trial.Series, kept(t.series, slices.Sorted(maps.Keys(t.series)))...)
	return trial, nil
}

// levels are under what the test ran.
func (t *test) levels() []bench.Label {
	known := func(s string) string { return cmp.Or(s, foreign.Unknown) }
	return []bench.Label{
		{Key: "script", Value: known(t.row.script)},
		{Key: "scale", Value: known(t.row.scale)},
		{Key: "clients", Value: known(t.row.clients)},
		{Key: "rate", Value: t.row.rate},
		{Key: "rate_per_client", Value: t.row.clientRate},
		{Key: "multi", Value: t.row.multi},
		{Key: "connection", Value: t.row.connection},
		{Key: "version", Value: t.row.version},
	}
}

// addRow adds what the table tests has.
func (t *test) addRow(trial *foreign.Trial, found *corrections) {
	r := t.row
	pgbench.Put(trial, "rate", r.tps)
	pgbench.Put(trial, "database", r.size)
	if r.transactions > 0 {
		pgbench.Put(trial, "transactions", r.transactions)
		pgbench.Put(trial, "wal_each", found.wal(r.wal, t.major())/r.transactions)
	}
	if t.major() > 0 && t.major() < 140000 {
		found.connecting++
	}
	if math.IsNaN(r.mean) {
		return
	}
	if t.isPartial() {
		found.partial++
		return
	}
	found.percentiles++
	pgbench.Put(trial, "time.mean", r.mean/1e3)
	pgbench.Put(trial, "time.p90", r.p90/1e3)
	pgbench.Put(trial, "time.max", r.longest/1e3)
}

// isPartial reports whether the latencies are those of only a part of the transactions: log-to-csv
// had stopped. Tests of which the ends were cut off on purpose have fewer too.
func (t *test) isPartial() bool {
	if t.row.trimmed || !(t.row.transactions > 0) {
		return false
	}
	n, known := 0.0, false
	for _, v := range t.series["rate"] {
		n, known = n+v, true
	}
	if !known && t.tree != nil {
		n, known = t.tree.samples, t.tree.samples > 0
	}
	const all = 0.99 // pgbench's last transactions may be missing
	return known && n < all*t.row.transactions
}

// addStatistics adds what the server had counted.
func (t *test) addStatistics(trial *foreign.Trial, found *corrections) {
	if b := t.bgwriter; b != nil {
		backend, alloc := found.buffers(b, t.major())
		pgbench.Put(trial, "checkpoints", b.checkpoints)
		pgbench.Put(trial, "buffers.checkpoint", b.checkpoint)
		pgbench.Put(trial, "buffers.clean", b.clean)
		pgbench.Put(trial, "buffers.backend", backend)
		pgbench.Put(trial, "buffers.alloc", alloc)
		if b.dirty > 0 { // 0 stands for unknown
			pgbench.Put(trial, "dirty", b.dirty)
		}
	}
	d := t.database
	if d == nil {
		return
	}
	pgbench.Put(trial, "hit_ratio", d.hit/(d.hit+d.read))
	pgbench.Put(trial, "reads_each", d.read/t.row.transactions)
	pgbench.Put(trial, "deadlocks", d.deadlocks)
	pgbench.Put(trial, "temp_bytes", d.temp)
}

// A corrections counts the tests of which something was corrected or left out.
type corrections struct {
	exchanged, segments, partial, percentiles, connecting, other int
}

// buffers are those that backends wrote and those that were allocated. From version 17 on the
// script reads them in another order than it selects them in, and the server does not count the
// first any more.
func (c *corrections) buffers(b *bgwriter, major int) (backend, alloc float64) {
	if major >= 170000 && b.alloc == 0 && b.backend > 0 {
		c.exchanged++
		return math.NaN(), b.backend
	}
	if major >= 170000 {
		return math.NaN(), b.alloc
	}
	return b.backend, b.alloc
}

// segment is the size of a segment of the WAL, of which 256 are 4 GiB.
const segment = 16 << 20

// wal corrects an amount of WAL. The script counts 255 segments in each 4 GiB, as there were until
// version 9.2, so each 4 GiB that the WAL has passed is missing one. Only an amount that had become
// negative tells for sure that it had passed one; of all others one in 255 is missing on average.
func (c *corrections) wal(bytes float64, major int) float64 {
	if math.IsNaN(bytes) || bytes == 0 || major < 90300 {
		return bytes
	}
	c.segments++
	if bytes < 0 {
		return max(0, bytes+segment)
	}
	return bytes * 256 / 255
}

// notes say what was corrected and what is missing.
func (c *corrections) notes() (all []foreign.Note) {
	add := func(n int, code, text, hint string) {
		if n > 0 {
			text = strings.ReplaceAll(text, "{n}", unit.FormatCount(n, "test"))
			all = append(all, foreign.Note{Code: code, Text: text, Hint: hint})
		}
	}
	add(c.exchanged, foreign.CodeCorrected,
		"on servers from version 17 on, pgbench-tools stores buffers_alloc as buffers_backend: exchanged in {n}",
		"there is nothing to do, but how many buffers backends wrote is unknown")
	add(c.segments, foreign.CodeCorrected,
		"pgbench-tools counts 255 segments of WAL in 4 GiB, where 256 are: corrected in {n}",
		"a single amount of WAL can still be wrong by up to 16 MiB")
	add(c.partial, foreign.CodeCorrected,
		"times of {n} are left out, because they are of a part of the transactions: log-to-csv stops at the first "+
			"line with retries, or of a transaction that was skipped or failed",
		"import the log of pgbench, if it was kept")
	add(c.percentiles, foreign.CodeImported,
		"pgbench-tools keeps the mean, the 90th percentile and the longest of the times: no other percentiles of {n}",
		"import the results tree with the tables: its latency-20.csv has more")
	add(c.connecting, foreign.CodeImported,
		"rates of {n}, of servers older than 14, include the time to connect if pgbench was as old",
		"do not compare them with rates of later versions where tests were short")
	add(c.other, foreign.CodeImported, "what was measured with osm2pgsql is left out: {n}",
		"they are not measured with pgbench")
	return all
}

// treeTrial makes a trial of a test of which there is only the directory.
func (t *test) treeTrial(found *corrections) (foreign.Trial, error) {
	o := t.tree.output
	if o == nil {
		return foreign.Trial{
			Where: t.tree.where, Began: t.tree.began, Failed: "pgbench printed no result",
			Levels: []bench.Label{
				{Key: "script", Value: foreign.Unknown},
				{Key: "scale", Value: foreign.Unknown},
				{Key: "clients", Value: foreign.Unknown},
			},
		}, nil
	}
	if o.Init != nil {
		trial := pgbench.InitTrial(o)
		trial.Began = t.tree.began
		return trial, nil
	}
	trial, err := pgbench.Trial(o, t.tree.log)
	if err != nil || trial.Failed != "" {
		return trial, err
	}
	if trial.Began.IsZero() {
		trial.Began = t.tree.began
	}
	if t.tree.version != "" {
		trial.Levels = append(trial.Levels, bench.Label{Key: "version", Value: t.tree.version})
	}
	if t.tree.log == nil {
		t.addBuckets(&trial, float64(o.Transactions), found)
	}
	return trial, nil
}

// addInit adds the steps of the making of tables.
func (t *test) addInit(trial *foreign.Trial) error {
	if t.tree == nil || t.tree.output == nil || t.tree.output.Init == nil {
		return nil
	}
	for name, v := range pgbench.InitTrial(t.tree.output).Values {
		trial.Set(name, v)
	}
	return nil
}

// addTree adds what only the directory of a test has: its log, or at least percentiles.
func (t *test) addTree(trial *foreign.Trial, found *corrections) error {
	switch {
	case t.tree == nil:
	case t.tree.log != nil:
		return t.tree.log.AddTo(trial)
	case !t.row.trimmed:
		t.addBuckets(trial, t.row.transactions, found)
	}
	return nil
}

// addBuckets adds the percentiles that latency-20.csv and latency-100.csv have, and the seconds of
// latency_1s.csv, unless they are of a part of the transactions.
func (t *test) addBuckets(trial *foreign.Trial, transactions float64, found *corrections) {
	const all = 0.99 // as above
	if t.tree.samples > 0 && t.tree.samples < all*transactions {
		if t.row == nil {
			found.partial++
		}
		return
	}
	if len(t.tree.percentiles) > 0 && found.percentiles > 0 && t.row != nil {
		found.percentiles--
	}
	for name, seconds := range t.tree.percentiles {
		pgbench.Put(trial, name, seconds)
	}
	if t.tree.longest > 0 {
		pgbench.Put(trial, "time.max", t.tree.longest)
	}
	for _, s := range t.tree.series {
		if _, known := t.series[strings.TrimPrefix(s.Metric, pgbench.PerSecond(""))]; !known {
			trial.Series = append(trial.Series, s)
		}
	}
}

// timeOf is a time of a number of seconds since 1970; zero where there cannot be one.
func timeOf(seconds float64) time.Time {
	if !(seconds > 0) || seconds > 1e10 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0).UTC()
}
