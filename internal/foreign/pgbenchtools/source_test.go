package pgbenchtools_test

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/pgbenchtools"
	"github.com/tare-bench/tare/internal/store/record"
)

// read reads files below testdata, and makes valid runs of them: by their labels.
func read(t *testing.T, names ...string) map[string]*bench.Run {
	t.Helper()
	for i := range names {
		names[i] = filepath.Join("testdata", names[i])
	}
	in, err := foreign.Open(names, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	sets, err := pgbenchtools.Source().Read(in)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]*bench.Run{}
	for _, s := range sets {
		run, err := s.Run("test")
		if err != nil {
			t.Fatal(err)
		}
		run.Header.ID = "x"
		if err := record.ValidateHeader(&run.Header); err != nil {
			t.Fatal(err)
		}
		for i := range run.Samples {
			if err := record.ValidateSample(&run.Header, i, &run.Samples[i]); err != nil {
				t.Fatal(err)
			}
		}
		var labels []string
		for _, l := range run.Header.Plan.Labels {
			labels = append(labels, l.Value)
		}
		runs[strings.Join(labels, " ")] = run
	}
	return runs
}

// shown is a run in lines: its trials with some of their values.
func shown(run *bench.Run, metrics ...string) (lines []string) {
	for _, s := range run.Samples {
		var line strings.Builder
		line.WriteString(fmt.Sprintf("%s: %s", run.Header.Plan.Cells[s.Trial.Cell].Condition, s.Outcome))
		if s.Reason != "" {
			line.WriteString(", " + s.Reason)
		}
		for _, name := range metrics {
			i := slices.IndexFunc(run.Header.Metrics, func(m bench.Metric) bool { return m.Name == "load."+name })
			if v, ok := s.Value(i); ok {
				line.WriteString(fmt.Sprintf(" %s=%.6g", name, v))
			}
		}
		lines = append(lines, line.String())
	}
	return lines
}

// warnings are the texts of the warnings, without the first, which all imported runs have.
func warnings(run *bench.Run) (all []string) {
	for _, w := range run.Header.Warnings[1:] {
		all = append(all, w.Code+": "+w.Text)
	}
	return all
}

// Each server and testset is a run, and making tables is another one.
func TestTables(t *testing.T) {
	runs := read(t, "tables")
	want := []string{"old 3", "vm 1 as packaged config", "vm 2 shared_buffers, 1 GB config", "vm init 1 as packaged config"}
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(runs))); d != "" {
		t.Fatal(d)
	}
	main := runs["vm 1 as packaged config"]
	want = []string{
		"script=select,scale=10,clients=1,rate=none,rate_per_client=none,wal_compression=off: ok rate=9000.5 " +
			"time.mean=0.00011 time.p90=0.00014",
		"script=select,scale=10,clients=4,rate=none,rate_per_client=none,wal_compression=off: ok rate=21000.2 " +
			"time.mean=0.00019 time.p90=0.00025",
		"script=select,scale=10,clients=1,rate=none,rate_per_client=none,wal_compression=off: ok rate=9100 " +
			"time.mean=0.00011 time.p90=0.00014",
		"script=select,scale=10,clients=4,rate=none,rate_per_client=none,wal_compression=off: ok rate=20500 " +
			"time.mean=0.00019 time.p90=0.00025",
		"script=tpc-b,scale=10,clients=4,rate=none,rate_per_client=none,wal_compression=off: failed, its rate is 0",
		"script=tpc-b,scale=10,clients=4,rate=none,rate_per_client=none,wal_compression=off: failed, its rate is 0",
		"script=tpc-b,scale=10,clients=4,rate=none,rate_per_client=none,wal_compression=pglz: ok rate=100 " +
			"time.mean=0.04 time.p90=0.055 wal_each=1048.58 checkpoints=2 buffers.alloc=777 hit_ratio=0.95 reads_each=0.5",
		"script=tpc-b,scale=10,clients=4,rate=none,rate_per_client=none,wal_compression=off: ok rate=100.5 " +
			"time.mean=0.0398 time.p90=0.054 wal_each=267100 checkpoints=0 buffers.alloc=0",
		"script=tpc-b,scale=10,clients=4,rate=50,rate_per_client=12.5,wal_compression=off: ok rate=50 wal_each=0",
	}
	got := shown(main, "rate", "time.mean", "time.p90", "wal_each", "checkpoints", "buffers.alloc", "buffers.backend",
		"hit_ratio", "reads_each")
	got = strings.Split(strings.ReplaceAll(strings.Join(got, "\n"), " wal_each=0\n", "\n"), "\n") // reads write none
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"scale=10: ok init.time=12"}, shown(runs["vm init 1 as packaged config"], "init.time")); d != "" {
		t.Error(d)
	}
	if h := main.Header.Host; h.Hostname != "vm" || h.Memory != 8<<30 || h.CPU != "Example CPU" {
		t.Errorf("the host is %+v", h)
	}
	if e := main.Header.Engines[0]; e.Version != "17.2" || !slices.Contains(e.Facts, bench.Label{Key: "max_wal_size", Value: "4GB"}) {
		t.Errorf("the server is %+v", e)
	}
}

// What pgbench-tools gets wrong is corrected, and each correction is said with the number of tests.
func TestCorrections(t *testing.T) {
	runs := read(t, "tables")
	want := []string{
		"corrected: on servers from version 17 on, pgbench-tools stores buffers_alloc as buffers_backend: exchanged in 1 test",
		"corrected: pgbench-tools counts 255 segments of WAL in 4 GiB, where 256 are: corrected in 2 tests",
		"corrected: times of 1 test are left out, because they are of a part of the transactions: log-to-csv stops at " +
			"the first line with retries, or of a transaction that was skipped or failed",
		"imported: pgbench-tools keeps the mean, the 90th percentile and the longest of the times: no other " +
			"percentiles of 6 tests",
		"imported: what was measured with osm2pgsql is left out: 1 test",
	}
	if d := cmp.Diff(want, warnings(runs["vm 1 as packaged config"])); d != "" {
		t.Error(d)
	}
	// Version 9.2 had 255 segments, and its counters are in order.
	old := runs["old 3"]
	want = []string{"script=select,scale=10,clients=1: ok wal_each=208.896 buffers.alloc=99 buffers.backend=11"}
	if d := cmp.Diff(want, shown(old, "wal_each", "buffers.alloc", "buffers.backend")); d != "" {
		t.Error(d)
	}
	if len(warnings(old)) != 2 || !strings.Contains(warnings(old)[1], "include the time to connect") {
		t.Errorf("warnings %q", warnings(old))
	}
}

// The seconds of a test are kept: those of a metric under its name.
func TestSeries(t *testing.T) {
	main, got := read(t, "tables")["vm 1 as packaged config"], map[string]int{}
	for _, s := range main.Samples {
		for _, one := range s.Series {
			got[one.Metric] = len(one.Values)
			if one.Metric == "per_second.cs" && one.Values[9] != 3009 {
				t.Errorf("context switches of each second: %v", one.Values)
			}
		}
	}
	if got["per_second.cs"] != 10 || got["load.per_second.rate"] == 0 {
		t.Errorf("numbers of values: %v", got)
	}
}

// A results tree has percentiles, unless the times are of a part of the transactions.
func TestTree(t *testing.T) {
	runs := read(t, "results")
	if len(runs) != 2 {
		t.Fatalf("%d runs, want 2: %v", len(runs), slices.Sorted(maps.Keys(runs)))
	}
	run := runs["vm"]
	n := map[string]int{}
	for i, s := range run.Samples {
		condition := run.Header.Plan.Cells[s.Trial.Cell].Condition
		n[condition+" "+string(s.Outcome)]++
		if s.Outcome != bench.OK {
			continue
		}
		value := func(name string) float64 {
			at := slices.IndexFunc(run.Header.Metrics, func(m bench.Metric) bool { return m.Name == "load."+name })
			v, ok := s.Value(at)
			if !ok {
				return math.NaN()
			}
			return v
		}
		p50, p90, p95, longest := value("time.p50"), value("time.p90"), value("time.p95"), value("time.max")
		partial := math.IsNaN(p50)
		if !partial && !(p50 > 0 && p50 <= p90 && p90 <= p95 && p95 <= longest) {
			t.Errorf("trial %d: p50 %v, p90 %v, p95 %v, longest %v", i, p50, p90, p95, longest)
		}
		if partial {
			n["partial"]++
		}
		if !(value("rate") > 0) || s.Began.IsZero() {
			t.Errorf("trial %d: rate %v, began %v", i, value("rate"), s.Began)
		}
	}
	want := map[string]int{
		"script=select,scale=2,clients=1 ok": 3, "script=select,scale=2,clients=4 ok": 3,
		"script=unknown,scale=unknown,clients=unknown failed": 1, "partial": 1,
	}
	if d := cmp.Diff(want, n); d != "" {
		t.Error(d)
	}
	if e := run.Header.Engines[0]; e.Version != "15.18" {
		t.Errorf("the server is %+v", e)
	}
}

func TestWrongFiles(t *testing.T) {
	header := "server,test,set,script,clients,scale,tps,start_time,end_time\n"
	for _, c := range []struct{ name, text, want string }{
		{"a.csv", "x,y\n1,2\n", "a.csv:1: this is no table of pgbench-tools, or it has no header"},
		{"a.csv", header + "vm,one,1,select,1,1,5,,\n", `a.csv:2: "one" in column test is no whole number`},
		{"a.csv", header + "vm,1,1,select,1,1,fast,,\n", `a.csv:2: "fast" in column tps is no number`},
		{
			"a.csv", header + "vm,1,1,select,1,1,5,yesterday,\n",
			`a.csv:2: "yesterday" in column start_time is no time such as 2026-01-31 12:00:00`,
		},
		{"a.csv", header + "vm,1,1,select,1,1,5,,\nvm,1,1,select,1,1,5,,\n", `a.csv:3: server "vm" has two rows of test 1`},
		{"r/vm/x/results.txt", "hello\n", `r/vm/x/results.txt: the directory "x" is not the number of a test`},
	} {
		in := &foreign.Input{Files: []foreign.File{foreign.NewFile(c.name, c.text)}}
		if _, err := pgbenchtools.Source().Read(in); err == nil || err.Error() != c.want {
			t.Errorf("%q: error %v, want %s", c.text, err, c.want)
		}
	}
}

func FuzzTables(f *testing.F) {
	f.Add("server,test,set,script,clients,scale,tps,trans,wal_written,server_version,start_time,end_time\n"+
		"vm,1,1,select,1,1,5,50,-3,PostgreSQL 17.1,2026-01-02 12:00:00,2026-01-02 12:01:00\n",
		"test,checkpoints_timed,checkpoints_req,buffers_alloc,buffers_backend,server\n1,1,1,0,9,vm\n")
	f.Fuzz(func(t *testing.T, tests, other string) {
		in := &foreign.Input{Files: []foreign.File{foreign.NewFile("a", tests), foreign.NewFile("b", other)}}
		sets, err := pgbenchtools.Source().Read(in)
		if err != nil {
			return
		}
		for _, s := range sets {
			run, err := s.Run("test")
			if err != nil {
				continue
			}
			run.Header.ID = "x"
			for i := range run.Samples {
				if err := record.ValidateSample(&run.Header, i, &run.Samples[i]); err != nil && run.Samples[i].Began.Year() < 9999 {
					t.Fatal(err)
				}
			}
		}
	})
}
