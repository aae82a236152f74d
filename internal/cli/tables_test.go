package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/storetest"
)

// lanes is a run of throughput whose tables can be reckoned in the head: docker
// with two numbers of lanes and its control, and runc on another network.
func lanes() *bench.Run {
	run := storetest.Example("lanes", 0)
	h := &run.Header
	h.Plan.Workload, h.Plan.Warmup = "throughput", 1
	h.Plan.Factors = []bench.Factor{{Name: "engine"}, {Name: "concurrency", Condition: true}, {Name: "network", Condition: true}}
	cell := func(name, lanes, network string) bench.Cell {
		return bench.Cell{
			Name: name, Engine: name, Condition: "concurrency=" + lanes + ",network=" + network, Params: map[string]string{"concurrency": lanes, "iterations": "7"},
			Levels: []bench.Label{{Key: "engine", Value: name}, {Key: "concurrency", Value: lanes}, {Key: "network", Value: network}},
		}
	}
	h.Plan.Cells = []bench.Cell{cell("docker", "1", "none"), cell("docker", "1", "none"), cell("docker", "3", "none"), cell("runc\n\x1b", "1", "host")}
	h.Plan.Cells[1].Control = true
	h.Metrics = []bench.Metric{{Name: "rate", Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio}}
	add := func(block, cell int, rate float64, series ...bench.Series) {
		run.Samples = append(run.Samples, bench.Sample{
			Trial: bench.Trial{Seq: len(run.Samples), Block: block, Cell: cell}, Outcome: bench.OK, Values: []float64{rate}, Series: series,
		})
	}
	one := func(metric string, values ...float64) bench.Series {
		return bench.Series{Metric: metric, Values: values}
	}
	add(-1, 0, 1000, one("create", 9), one("start", 9))
	add(0, 0, 4, one("create", 0.001, 0.002), one("start", 0.010, 0.020), one("kill", 0.5, 0.5), one("total", 9), one("exec", 9), one("errors.start", 2))
	add(1, 0, 6, one("create", 0.003), one("start", 0.030), one("errors.kill", 1), one("errors.start", 1), one("kill", 0.25))
	add(2, 0, 10)
	add(0, 1, 1000, one("create", 9), one("start", 9))
	add(0, 2, 7.5)
	run.Samples = append(run.Samples, bench.Sample{
		Trial: bench.Trial{Seq: len(run.Samples), Block: 0, Cell: 3}, Outcome: bench.Failed, Operation: "create", Reason: "lost",
	})
	h.Schedule = nil
	return run
}

func TestTablesOfBucketbench(t *testing.T) {
	p := newPlace(t)
	var b strings.Builder
	if err := record.Write(&b, lanes()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(p.dir, "lanes.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p.must(t, "import", file)
	got := p.must(t, "show", "--as", "bucketbench")
	const want = `
SUMMARY TIMINGS/THREAD RATES

                          Iter/Thd    1 thrd   3 thrds
     docker network=none         7      6.00      7.50
  runc \x1b network=host         7         -

DETAILED COMMAND TIMINGS/STATISTICS
  docker network=none:1       Min       Max       Avg    Median    Stddev    Errors
                    run     11.00     33.00     22.00     22.00      8.98         3
                   stop    250.00    500.00    416.67    500.00    117.85         1


`
	if d := cmp.Diff(want, got.stdout); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !strings.HasPrefix(got.stderr, "tare: failed trials, which are left out: 1;") {
		t.Errorf("stderr %q", got.stderr)
	}
}
