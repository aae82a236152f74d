package pgbenchtools

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/pgbench"
)

// The files of a test's directory that are read.
const (
	resultsFile  = "results.txt"     // what pgbench printed
	secondsFile  = "latency_1s.csv"  // times by second
	bucketsFile  = "latency-20.csv"  // percentiles, 5 % apart
	percentsFile = "latency-100.csv" // the same, 1 % apart
	settingsFile = "pg_settings.txt" // version and settings of the server
	logFile      = "pgbench.log"     // of all threads
)

// A testDir is what the directory of a test has.
type testDir struct {
	where       string
	output      *pgbench.Output // nil if pgbench printed no result
	log         *pgbench.Log    // nil if it was not kept
	began       time.Time
	version     string // of the server
	samples     float64
	longest     float64            // seconds
	percentiles map[string]float64 // seconds, by metric
	series      []bench.Series
}

// readTest reads the directory of a test.
func (r *results) readTest(dir string, files []foreign.File) error {
	k, err := where(dir)
	if err != nil {
		return err
	}
	t := r.test(k)
	if t.tree != nil {
		return foreign.Errorf(dir, 0, "import one of them", "server %.40q has two directories of test %d", k.server, k.test)
	}
	t.tree = &testDir{percentiles: map[string]float64{}}
	logs, others := pgbench.SplitLogs(files)
	for _, f := range others {
		if err := t.tree.read(&f, t); err != nil {
			return err
		}
	}
	for _, l := range logs {
		if l.Files[0].Base != logFile && !strings.HasPrefix(l.Files[0].Base, "pgbench_log.") {
			continue
		}
		if t.tree.log != nil {
			return foreign.Errorf(l.Name, 0, "leave one of them out", "the directory has two logs")
		}
		if t.tree.log, err = l.Read(); err != nil {
			return err
		}
	}
	return nil
}

func (d *testDir) read(f *foreign.File, t *test) error {
	switch f.Base {
	case resultsFile:
		d.where = f.Name
		all, err := pgbench.ReadOutputs(f)
		if err != nil || len(all) == 0 {
			return err
		}
		d.output = all[len(all)-1]
	case secondsFile:
		return d.seconds(f)
	case bucketsFile, percentsFile:
		return f.Rows(d.bucket)
	case settingsFile:
		return d.settings(f, t)
	}
	return nil
}

// seconds reads how many transactions ended in each second, and how long they took.
func (d *testDir) seconds(f *foreign.File) error {
	rate, mean := bench.Series{Metric: pgbench.PerSecond("rate")}, bench.Series{Metric: pgbench.PerSecond("time.mean")}
	some := false
	err := f.Rows(func(row *foreign.Row) error {
		at, err1 := row.Number("collected")
		n, err2 := row.Number("samples")
		average, err3 := row.Number("avg_latency")
		longest, err4 := row.Number("max_latency")
		for _, err := range []error{err1, err2, err3, err4} {
			if err != nil {
				return err
			}
		}
		if d.began.IsZero() {
			d.began = timeOf(at)
		}
		if math.IsNaN(n) || n > 0 && math.IsNaN(average) {
			return nil
		}
		if n > 0 {
			some = true
			d.samples += n
			d.longest = max(d.longest, longest/1e3)
		} else {
			average = 0 // nothing ended in this second
		}
		rate.Values, mean.Values = append(rate.Values, n), append(mean.Values, average/1e3)
		if len(rate.Values) > bench.MaxSeriesValues/4 {
			return row.Errorf("the test has more than %d seconds", bench.MaxSeriesValues/4)
		}
		return nil
	})
	if some {
		d.series = []bench.Series{rate, mean}
	}
	return err
}

// bucket reads the upper end of a bucket, which is a percentile.
func (d *testDir) bucket(row *foreign.Row) error {
	right, err := row.Number("bucket_right")
	if err != nil {
		return err
	}
	v, err := row.Number("latency_right")
	name := map[int]string{50: "time.p50", 90: "time.p90", 95: "time.p95", 99: "time.p99"}[int(math.Round(right*100))]
	if err == nil && name != "" && v > 0 {
		d.percentiles[name] = v / 1e3
	}
	return err
}

// settings reads the version of the server and what its configuration file sets. What follows is of
// the system.
func (d *testDir) settings(f *foreign.File, t *test) error {
	inside := false
	return f.Lines(func(_ int, b []byte) error {
		line := string(b)
		switch {
		case strings.HasPrefix(line, "Server info and settings"):
			inside = true
		case strings.HasPrefix(line, "benchmark client OS"):
			inside = false
		case !inside:
		case strings.HasPrefix(line, "PostgreSQL "):
			d.version = versionOf(line)
		default:
			name, value, ok := strings.Cut(line, "|")
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			if ok && name != "name" && name != "" && len(t.settings) < maxSettings && !slices.Contains(unimportant(), name) {
				t.settings[name] = bench.Reason(value)
			}
		}
		return nil
	})
}
