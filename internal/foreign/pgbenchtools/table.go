package pgbenchtools

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/pgbench"
)

// A table is one of the tables of pgbench-tools, which its columns tell from others.
type table struct {
	name    string
	columns []string
	read    func(r *results, row *foreign.Row) error
}

func tables() []table {
	return []table{
		{"test_bgwriter", []string{"test", "checkpoints_timed", "buffers_alloc"}, (*results).bgwriter},
		{"test_stat_database", []string{"test", "xact_commit", "blks_hit"}, (*results).database},
		{"test_settings", []string{"test", "name", "setting", "source"}, (*results).setting},
		{"test_metrics_data", []string{"test", "metric", "value"}, (*results).metric},
		{"tests", []string{"test", "script", "clients", "tps"}, (*results).row},
		{"testset", []string{"set", "info"}, (*results).testset},
	}
}

// readTables reads those of the files that are tables. Others are skipped, unless a file is the
// only one.
func (r *results) readTables(files []foreign.File) error {
	for _, f := range files {
		columns := f.Columns()
		i := slices.IndexFunc(tables(), func(t table) bool {
			return !slices.ContainsFunc(t.columns, func(c string) bool { return !slices.Contains(columns, c) })
		})
		if i < 0 {
			if len(files) == 1 {
				return foreign.Errorf(f.Name, 1, `export it with psql: \copy tests TO 'tests.csv' CSV HEADER`,
					"this is no table of pgbench-tools, or it has no header")
			}
			continue
		}
		if err := f.Rows(func(row *foreign.Row) error { return tables()[i].read(r, row) }); err != nil {
			return err
		}
	}
	return nil
}

// key is the test that a row belongs to. Tables of old versions have no servers.
func (r *results) key(row *foreign.Row, number string) (key, error) {
	n, err := strconv.Atoi(row.Text(number))
	if err != nil {
		return key{}, row.Errorf("%.40q in column %s is no whole number", row.Text(number), number)
	}
	server := row.Text("server")
	if server == "" {
		server = foreign.Unknown
	}
	return key{r.intern(server), n}, nil
}

func (r *results) testset(row *foreign.Row) error {
	k, err := r.key(row, "set")
	if err == nil {
		r.sets[k] = testset{r.intern(row.Text("info")), r.intern(row.Text("category"))}
	}
	return err
}

// A testRow is a row of tests. Numbers that it lacks are NaN.
type testRow struct {
	where                                 string
	set, info                             string
	script, scale, clients, multi         string
	rate, clientRate, connection, version string
	began, ended                          time.Time
	trimmed, endless                      bool // whether its beginning was cut off; whether the table says nothing of ends
	tps, transactions                     float64
	mean, longest, p90                    float64 // milliseconds
	wal, size                             float64
	cpu, os                               string
	memory                                int64
}

func (r *results) row(row *foreign.Row) error {
	k, err := r.key(row, "test")
	if err != nil {
		return err
	}
	t := r.test(k)
	if t.row != nil {
		return row.Errorf("server %.40q has two rows of test %d", k.server, k.test)
	}
	text := func(columns ...string) string { return r.intern(row.Text(columns...)) }
	n := &testRow{
		where: row.File + ":" + strconv.Itoa(row.Line), set: text("set", "batch_id"), info: text("batch"),
		script: text("script"), scale: text("scale"), clients: text("clients"), multi: zeroless(text("multi")),
		rate: zeroless(text("rate_limit")), clientRate: zeroless(text("client_limit")),
		connection: text("conn_method", "conn"), version: versionOf(text("server_version", "server_ver")),
		cpu: text("server_cpu", "cpu"), os: text("server_os_release", "os_rel"), endless: !row.Has("end_time"),
	}
	var memory float64
	for _, to := range []struct {
		value   *float64
		columns []string
	}{
		{&n.tps, []string{"tps"}},
		{&n.transactions, []string{"trans"}},
		{&n.mean, []string{"avg_latency"}},
		{&n.longest, []string{"max_latency"}},
		{&n.p90, []string{"percentile_90_latency"}},
		{&n.wal, []string{"wal_written"}},
		{&n.size, []string{"dbsize"}},
		{&memory, []string{"server_mem_gb", "mem_gb"}},
	} {
		if *to.value, err = row.Number(to.columns...); err != nil {
			return err
		}
	}
	if memory > 0 && memory < 1<<30 {
		n.memory = int64(memory * (1 << 30))
	}
	if n.began, err = row.Time("start_time", "run"); err != nil {
		return err
	}
	if n.ended, err = row.Time("end_time"); err != nil {
		return err
	}
	begin, err := row.Time("start_latency")
	n.trimmed = begin.After(n.began)
	t.row = n
	return err
}

// zeroless is a number that means nothing if it is 0.
func zeroless(s string) string {
	if v, err := strconv.ParseFloat(s, 64); err == nil && v == 0 {
		return ""
	}
	return s
}

// versionOf is the number in a version such as "PostgreSQL 14.0 on x86_64…".
func versionOf(s string) string {
	words := strings.Fields(strings.TrimPrefix(s, "PostgreSQL "))
	if len(words) == 0 {
		return ""
	}
	return strings.TrimRight(words[0], ",")
}

// A bgwriter is a row of test_bgwriter: how much the counters grew.
type bgwriter struct{ checkpoints, checkpoint, clean, backend, alloc, dirty float64 }

func (r *results) bgwriter(row *foreign.Row) error {
	k, err := r.key(row, "test")
	if err != nil {
		return err
	}
	var b bgwriter
	var timed, requested float64
	for column, to := range map[string]*float64{
		"checkpoints_timed": &timed, "checkpoints_req": &requested, "buffers_checkpoint": &b.checkpoint,
		"buffers_clean": &b.clean, "buffers_backend": &b.backend, "buffers_alloc": &b.alloc, "max_dirty": &b.dirty,
	} {
		if *to, err = row.Number(column); err != nil {
			return err
		}
	}
	b.checkpoints = timed + requested
	r.test(k).bgwriter = &b
	return nil
}

// A database is a row of test_stat_database.
type database struct{ read, hit, deadlocks, temp float64 }

func (r *results) database(row *foreign.Row) error {
	k, err := r.key(row, "test")
	if err != nil {
		return err
	}
	var d database
	for column, to := range map[string]*float64{
		"blks_read": &d.read, "blks_hit": &d.hit, "deadlocks": &d.deadlocks, "temp_bytes": &d.temp,
	} {
		if *to, err = row.Number(column); err != nil {
			return err
		}
	}
	r.test(k).database = &d
	return nil
}

// setting keeps what somebody has set: not the defaults, and not what a connection had.
func (r *results) setting(row *foreign.Row) error {
	switch row.Text("source") {
	case "default", "override", "client", "session", "":
		return nil
	}
	k, err := r.key(row, "test")
	if err != nil {
		return err
	}
	value := row.Text("value")
	if value == "" {
		value = row.Text("setting")
	}
	settings := r.test(k).settings
	if name := r.intern(row.Text("name")); len(settings) < maxSettings && !slices.Contains(unimportant(), name) {
		settings[name] = r.intern(value)
	}
	return nil
}

// maxSettings is how many settings of a test are kept.
const maxSettings = 1000

// unimportant are settings that change nothing of a test.
func unimportant() []string {
	return []string{
		"DateStyle", "TimeZone", "log_timezone", "application_name", "lc_messages", "lc_monetary", "lc_numeric", "lc_time",
		"cluster_name", "data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "port",
		"unix_socket_directories", "log_line_prefix", "log_filename", "log_directory", "stats_temp_directory",
		"default_text_search_config",
	}
}

// maxValues is how many values of series are kept of all tests together: 160 MB.
const maxValues = 20_000_000

// metric keeps the values that were collected each second of a test, in the order of the table.
func (r *results) metric(row *foreign.Row) error {
	k, err := r.key(row, "test")
	if err != nil {
		return err
	}
	v, err := row.Number("value")
	if err != nil || math.IsNaN(v) {
		return err
	}
	if r.values++; r.values > maxValues {
		return foreign.Errorf(row.File, row.Line, "export the metrics of fewer tests", "the table has more than %d values",
			maxValues)
	}
	t, name := r.test(k), r.intern(row.Text("metric"))
	t.series[name] = append(t.series[name], v)
	return nil
}

// kept are the series that a sample has room for, by name.
func kept(series map[string][]float64, names []string) (all []bench.Series) {
	room := bench.MaxSeriesValues
	for _, name := range names {
		values := series[name]
		if room -= len(values); len(values) == 0 || room < 0 || len(all) == maxSeries || name == "" || len(name) > 900 {
			continue
		}
		all = append(all, bench.Series{Metric: seriesNamed(name), Values: values})
	}
	return all
}

// seriesNamed is what the series of something that was collected each second is called. What has the name of a
// metric of pgbench is that metric; others are of the machine, in units that the table does not tell.
func seriesNamed(collected string) string {
	series := pgbench.PerSecond(collected)
	metric, _ := bench.SeriesOf(series)
	if slices.ContainsFunc(pgbench.Metrics(), func(m bench.Metric) bool { return m.Name == metric }) {
		return series
	}
	return bench.PerSecond + collected
}

// maxSeries is how many series of a test are kept.
const maxSeries = 1000
