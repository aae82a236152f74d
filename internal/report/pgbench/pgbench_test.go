package pgbench_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report/pgbench"
)

// ownRun is a run of tare's own, with parts and a step of a sweep.
func ownRun() *bench.Run {
	run := &bench.Run{}
	for _, name := range []string{
		"read1.rate", "read1.time.p50", "read1.connect.p50", "read.rate.c4", "write.rate", "write.transactions", "write.failed",
	} {
		m := bench.Metric{Name: name, Unit: "s"}
		if strings.Contains(name, "rate") {
			m.Unit = "1/s"
		}
		run.Header.Metrics = append(run.Header.Metrics, m)
	}
	params := map[string]string{"scale": "10", "clients": "8", "time": "1s", "write_time": "1750ms", "rate": "0", "connect": "once"}
	run.Header.Plan = bench.Plan{Workload: "postgres", Cells: []bench.Cell{
		{Name: "native", Baseline: true, Engine: "native", Params: params},
		{Name: "docker", Engine: "docker", Params: params},
		{Name: "control", Control: true, Engine: "native", Params: params},
	}}
	add := func(cell, block int, values ...float64) {
		s := bench.Sample{Trial: bench.Trial{Seq: len(run.Samples), Cell: cell, Block: block}, Outcome: bench.OK, Values: values}
		if values == nil {
			s.Outcome = bench.Failed
		}
		run.Samples = append(run.Samples, s)
	}
	add(0, -1, 1, 1, 1, 1, 1, 1, 1) // the warm-up does not count
	add(0, 0, 4000, 0.0002, 0.003, 10000, 800, 1400, 0)
	add(2, 0, 9, 9, 9, 9, 9, 9, 9)
	add(0, 1, 2000, 0.0002, 0.001, 12000, 1000, 1700, 100)
	add(1, 0)
	nan := math.NaN()
	add(1, 1, nan, nan, nan, 9000, nan, nan, nan) // parts can fail
	return run
}

func TestOwnRun(t *testing.T) {
	var b strings.Builder
	if err := pgbench.Write(&b, ownRun()); err != nil {
		t.Fatal(err)
	}
	const want = `native read1: median of 2 trials
transaction type: <builtin: select only>
scaling factor: 10
query mode: prepared
number of clients: 1
duration: 1 s
latency average = 0.333 ms
tps = 3000.000000 (without initial connection time)

native read: median of 2 trials
transaction type: <builtin: select only>
scaling factor: 10
query mode: prepared
number of clients: 4
duration: 1 s
latency average = 0.364 ms
tps = 11000.000000 (without initial connection time)

native write: median of 2 trials
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 10
query mode: prepared
number of clients: 8
duration: 1.75 s
number of transactions actually processed: 1550
number of failed transactions: 50 (3.125%)
latency average = 8.889 ms
tps = 900.000000 (without initial connection time)

docker read: median of 1 trial
transaction type: <builtin: select only>
scaling factor: 10
query mode: prepared
number of clients: 4
duration: 1 s
latency average = 0.444 ms
tps = 9000.000000 (without initial connection time)
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

// A sweep has a summary for each step, and none for its highest rate. A part with one client is never swept.
func TestSweep(t *testing.T) {
	run := ownRun()
	run.Header.Metrics[4].Name = "read.rate"
	for _, c := range run.Header.Plan.Cells {
		c.Params["sweep"] = "4"
	}
	var b strings.Builder
	if err := pgbench.Write(&b, run); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]int{"native read1:": 1, "native read:": 1, "clients: 4": 2, "clients: 8": 0} {
		if got := strings.Count(b.String(), words); got != want {
			t.Errorf("%q %d times, want %d:\n%s", words, got, want, b.String())
		}
	}
	for _, c := range run.Header.Plan.Cells {
		c.Params["sweep"] = ""
	}
	b.Reset()
	if err := pgbench.Write(&b, run); err != nil || !strings.Contains(b.String(), "clients: 8") {
		t.Errorf("a cell without a sweep has no summary: %v\n%s", err, b.String())
	}
}

// With a rate, the number of clients says nothing of times.
func TestOpenLoop(t *testing.T) {
	run := ownRun()
	run.Header.Metrics[4].Name = "load.rate"
	params := run.Header.Plan.Cells[0].Params
	params["rate"], params["script"], params["connect"] = "900", "hostile\x1b[2J", "each"
	var b strings.Builder
	if err := pgbench.Write(&b, run); err != nil {
		t.Fatal(err)
	}
	_, last, _ := strings.Cut(b.String(), "\nnative: median")
	last, _, _ = strings.Cut(last, "\n\n")
	const want = ` of 2 trials
transaction type: hostile\x1b[2J
scaling factor: 10
query mode: prepared
number of clients: 8
duration: 1 s
tps = 900.000000 (including reconnection times)`
	if d := cmp.Diff(want, last); d != "" {
		t.Error(d)
	}
}

// A run without rates has no such form.
func TestOtherRun(t *testing.T) {
	run := ownRun()
	run.Header.Metrics = run.Header.Metrics[1:3]
	if err := pgbench.Write(&strings.Builder{}, run); err == nil {
		t.Error("a summary without a rate")
	}
}
