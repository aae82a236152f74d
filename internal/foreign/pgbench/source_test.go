package pgbench_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/pgbench"
	"github.com/tare-bench/tare/internal/store/record"
)

// read reads files as pgbench's results, and makes valid runs of them.
func read(t *testing.T, in *foreign.Input) ([]foreign.Set, []*bench.Run) {
	t.Helper()
	sets, err := pgbench.Source().Read(in)
	if err != nil {
		t.Fatal(err)
	}
	var runs []*bench.Run
	for _, s := range sets {
		if s.Found.IsZero() {
			t.Error("it is unknown when the results were written")
		}
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
		runs = append(runs, run)
	}
	return sets, runs
}

// An output has its rate, and its log the percentiles.
func TestOutputWithLog(t *testing.T) {
	sets, runs := read(t, open(t, "15/select"))
	if len(sets) != 1 || len(sets[0].Trials) != 1 {
		t.Fatalf("%d sets, want 1 with 1 trial", len(sets))
	}
	trial := sets[0].Trials[0]
	if trial.Began.IsZero() || trial.Failed != "" || len(trial.Distributions) != 1 {
		t.Errorf("the trial is %+v", trial)
	}
	for _, name := range []string{"load.rate", "load.time.p50", "load.time.p95", "load.time.mean", "load.connect.all"} {
		if !(trial.Values[name] > 0) {
			t.Errorf("%s = %v", name, trial.Values[name])
		}
	}
	// Of 240 transactions two are beyond the first, and the time until all are connected is not that of one connection.
	for _, name := range []string{"load.time.p99", "load.time.p99.9", "load.connect.mean"} {
		if v, known := trial.Values[name]; known {
			t.Errorf("%s = %v, want none", name, v)
		}
	}
	// pgbench computed the same mean, of which it prints three decimals.
	printed, err := pgbench.ReadOutputs(&open(t, "15/select/out.txt").Files[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := trial.Values["load.time.mean"], printed[0].Mean; math.Abs(got-want) > 0.3*want {
		t.Errorf("mean %v, pgbench printed %v", got, want)
	}
	if c := runs[0].Header.Plan.Cells[0]; c.Condition != "script=select-only,scale=2,clients=4" || !c.Baseline {
		t.Errorf("the cell is %+v", c)
	}
	if e := runs[0].Header.Engines[0]; e.Version != "15.18" {
		t.Errorf("the server is %+v", e)
	}
	if n := len(sets[0].Notes); n != 0 {
		t.Errorf("%d notes, want none: %v", n, sets[0].Notes)
	}
}

// What is missing is said.
func TestNotes(t *testing.T) {
	for name, want := range map[string]string{
		"15/sampled":     "some logs have only a part of the transactions",
		"15/agg":         "an aggregated log has only means",
		"old/9.4.txt":    "pgbench printed means only",
		"15/select/logs": "a log names neither script nor scale",
	} {
		in := open(t, strings.TrimSuffix(name, "/logs"))
		if strings.HasSuffix(name, "/logs") {
			in.Files = slices.DeleteFunc(in.Files, func(f foreign.File) bool { return f.Base == "out.txt" })
		}
		sets, _ := read(t, in)
		if len(sets) != 1 || len(sets[0].Notes) != 1 || !strings.HasPrefix(sets[0].Notes[0].Text, want) {
			t.Errorf("%s: %+v, want a note %q", name, sets, want)
		}
	}
}

// A log says what ended in each second, also in one in which nothing did; an aggregated log says it of
// intervals. Without what pgbench printed, the rate is over all of them.
func TestSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		log     string
		rate    float64
		seconds []float64
		mean    []float64
	}{
		"transactions": {
			"0 1 1000 0 1700000001 500000\n0 2 3000 0 1700000001 900000\n0 3 2000 0 1700000004 500000\n",
			1,
			[]float64{2, 0, 0, 1},
			[]float64{0.002, 0, 0, 0.002},
		},
		"aggregated": {
			"1700000000 50 100000 1 1000 4000\n1700000005 0 0 0 0 0\n1700000010 25 50000 1 1000 4000\n",
			5,
			[]float64{10, 0, 5},
			[]float64{0.002, 0, 0.002},
		},
		"one interval": {"1700000000 50 100000 1 1000 4000\n", math.NaN(), nil, nil},
	} {
		sets, _ := read(t, &foreign.Input{Files: []foreign.File{fileOf("pgbench_log.7", c.log)}})
		trial := sets[0].Trials[0]
		if got, ok := trial.Values["load.rate"]; ok != !math.IsNaN(c.rate) || ok && got != c.rate {
			t.Errorf("%s: rate %v, want %v", name, got, c.rate)
		}
		series := map[string][]float64{}
		for _, one := range trial.Series {
			series[one.Metric] = one.Values
		}
		got := [][]float64{series["load.per_second.rate"], series["load.per_second.time.mean"]}
		if d := cmp.Diff([][]float64{c.seconds, c.mean}, got); d != "" {
			t.Errorf("%s: rates and mean times (-want +got):\n%s", name, d)
		}
	}
}

// A log can come from stdin.
func TestLogFromStdin(t *testing.T) {
	in, err := foreign.Open([]string{foreign.Stdin}, strings.NewReader("0 1 1000 0 1700000001 500000\n0 2 3000 0 1700000002 500000\n"))
	if err != nil {
		t.Fatal(err)
	}
	sets, err := pgbench.Source().Read(in)
	if err != nil || len(sets) != 1 || sets[0].Trials[0].Values["load.transactions"] != 2 {
		t.Errorf("%+v, error %v; want one trial with two transactions", sets, err)
	}
}

// fileOf is a file whose time is known.
func fileOf(name, text string) foreign.File {
	f := foreign.NewFile(name, text)
	f.Time = time.Unix(1_700_000_000, 0)
	return f
}

// A failed run of pgbench is a trial that failed, and making tables is a set of its own.
func TestFailedAndInit(t *testing.T) {
	sets, runs := read(t, open(t, "15/abort", "15/init.txt", "old/18.txt"))
	if len(sets) != 2 {
		t.Fatalf("%d sets, want 2", len(sets))
	}
	for _, s := range runs[0].Samples {
		if s.Outcome != bench.Failed || s.Reason == "" || s.Values != nil {
			t.Errorf("the sample is %+v", s)
		}
	}
	if d := cmp.Diff("load.init.time", runs[1].Header.Metrics[0].Name); d != "" {
		t.Error(d)
	}
}

// Logs that could be of several outputs, and of none.
func TestLogOfNobody(t *testing.T) {
	log := "0 1 1000 0 1700000001 900000\n0 2 1000 0 1700000001 910000\n"
	output := "transaction type: SELECT only\nscaling factor: 1\nnumber of clients: 1\n" +
		"number of transactions actually processed: 2\ntps = 10 (excluding connections establishing)\n"
	for want, files := range map[string][]foreign.File{
		"pgbench_log.7: the log has 2 transactions, and no result has as many": {
			foreign.NewFile("a", strings.ReplaceAll(output, "processed: 2", "processed: 1")),
			foreign.NewFile("b", strings.ReplaceAll(output, "processed: 2", "processed: 3")), foreign.NewFile("pgbench_log.7", log),
		},
		"pgbench_log.7: 2 results have as many transactions as the log, 2": {
			foreign.NewFile("a", output), foreign.NewFile("b", output), foreign.NewFile("pgbench_log.7", log),
		},
		"a: there is no result of pgbench in it": {foreign.NewFile("a", "hello\n")},
		"pgbench_log.7:2: the client number -1": {
			foreign.NewFile("pgbench_log.7", "0 1 1000 0 1700000001 900000\n-1 2 1000 0 1700000001 910000\n"),
		},
	} {
		if _, err := pgbench.Source().Read(&foreign.Input{Files: files}); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
