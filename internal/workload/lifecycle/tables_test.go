package lifecycle_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/storetest"
	"github.com/tare-bench/tare/internal/workload/lifecycle"
)

// lanes is a run of throughput whose tables can be reckoned in the head: docker
// with two numbers of lanes and its control, and runc on another network.
func lanes() *bench.Run {
	run := storetest.Example("lanes", 0)
	h := &run.Header
	h.Plan.Workload, h.Plan.Warmup = "throughput", 1
	h.Plan.Factors = []bench.Factor{
		{Name: "engine"}, {Name: "concurrency", Condition: true}, {Name: "network", Condition: true},
	}
	cell := func(name, lanes, network string) bench.Cell {
		return bench.Cell{
			Name: name, Engine: name, Condition: "concurrency=" + lanes + ",network=" + network,
			Params: map[string]string{"concurrency": lanes, "iterations": "7"},
			Levels: []bench.Label{
				{Key: "engine", Value: name}, {Key: "concurrency", Value: lanes}, {Key: "network", Value: network},
			},
		}
	}
	h.Plan.Cells = []bench.Cell{
		cell("docker", "1", "none"), cell("docker", "1", "none"), cell("docker", "3", "none"),
		cell("runc\n\x1b", "1", "host"),
	}
	h.Plan.Cells[1].Control = true
	h.Metrics = []bench.Metric{{Name: "rate", Unit: "1/s", Better: bench.Higher, Role: bench.Primary, Scale: bench.Ratio}}
	add := func(block, cell int, rate float64, series ...bench.Series) {
		run.Samples = append(run.Samples, bench.Sample{
			Trial: bench.Trial{Seq: len(run.Samples), Block: block, Cell: cell}, Outcome: bench.OK,
			Values: []float64{rate}, Series: series,
		})
	}
	one := func(metric string, values ...float64) bench.Series {
		return bench.Series{Metric: metric, Values: values}
	}
	add(-1, 0, 1000, one("create", 9), one("start", 9))
	add(0, 0, 4, one("create", 0.001, 0.002), one("start", 0.010, 0.020), one("kill", 0.5, 0.5), one("total", 9),
		one("exec", 9), one("errors.start", 2))
	add(1, 0, 6, one("create", 0.003), one("start", 0.030), one("errors.kill", 1),
		one("errors.start", 1), one("kill", 0.25))
	add(2, 0, 10, one("errors.pause", 15), one("wait", 0.012))
	add(0, 1, 1000, one("create", 9), one("start", 9))
	add(0, 2, 7.5)
	run.Samples = append(run.Samples, bench.Sample{
		Trial: bench.Trial{Seq: len(run.Samples), Block: 0, Cell: 3}, Outcome: bench.Failed,
		Operation: "create", Reason: "lost",
	})
	h.Schedule = nil
	return run
}

// tables is how the tables are written.
func tables(t *testing.T) func(io.Writer, *bench.Run) error {
	t.Helper()
	former, ok := lifecycle.NewThroughput().(bench.Former)
	if !ok {
		t.Fatal("throughput has no forms")
	}
	return former.Forms()[0].Write
}

func TestTables(t *testing.T) {
	var b strings.Builder
	if err := tables(t)(&b, lanes()); err != nil {
		t.Fatal(err)
	}
	const want = `
SUMMARY TIMINGS/THREAD RATES

                          Iter/Thd    1 thrd   3 thrds
     docker network=none         7      6.00      7.50
  runc \x1b network=host         7         -

DETAILED COMMAND TIMINGS/STATISTICS
  docker network=none:1       Min       Max       Avg    Median    Stddev    Errors
                    run     11.00     33.00     22.00     22.00      8.98         3
                  pause         -         -         -         -         -        15
                   wait     12.00     12.00     12.00     12.00      0.00         0
                   stop    250.00    500.00    416.67    500.00    117.85         1


`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestTablesFail(t *testing.T) {
	full := errors.New("no space left")
	r, w := io.Pipe()
	_ = r.CloseWithError(full)
	if err := tables(t)(w, lanes()); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}
