package cli_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/tare-bench/tare/internal/bench"
)

// TestMeasureIdle prints how well the figures of a machine at rest repeat. scripts/measure-idle says what it is told:
//
//	TARE_MEASURE_IDLE  the arguments of 'tare run idle', such as "--engine docker --param time=1m"
//	TARE_MEASURE_RUNS  number of runs
//
// Without them it makes two small runs.
func TestMeasureIdle(t *testing.T) {
	args := strings.Fields(os.Getenv("TARE_MEASURE_IDLE"))
	runs, err := strconv.Atoi(cmp.Or(os.Getenv("TARE_MEASURE_RUNS"), "2"))
	if err != nil || runs < 2 {
		t.Fatalf("TARE_MEASURE_RUNS: %v; want two runs or more", err)
	}
	if len(args) == 0 {
		t.Parallel() // nothing is measured but that it works
		require(t, "docker")
		args = strings.Fields("--engine docker --blocks 2 --warmup 0 --washout off --param time=100ms --param calm=0s")
	}
	p := newTestEnv(t)
	for range runs {
		r := p.begin(t, append([]string{"run", "idle", "--precision", "off"}, args...)...)
		if err := <-r.exited; err != nil { // however long it takes
			t.Fatalf("%v\n%s", err, &r.stderr)
		}
	}
	table := repeats(p.runs(t))
	for _, want := range []string{"idle.memory ", "idle.processes ", "idle.wakeups ", "idle.cpu "} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %s", want)
		}
	}
	t.Logf("%d runs:\n%s", runs, table)
}

// repeats is a table of how far apart the medians of runs are, and the trials of a run.
func repeats(runs []*bench.Run) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "metric\tmedian\truns apart %\ttrials' sd %")
	for k, m := range runs[0].Header.Metrics {
		if !strings.HasPrefix(m.Name, "idle.") {
			continue
		}
		var medians, scatter []float64
		for _, r := range runs {
			values := valuesOf(r, k)
			if len(values) == 0 {
				continue
			}
			medians = append(medians, medianOf(values))
			scatter = append(scatter, deviation(values))
		}
		middle := medianOf(medians)
		if len(medians) == 0 || middle == 0 {
			continue // there is nothing, or nothing to compare with
		}
		fmt.Fprintf(w, "%s\t%.6g\t%.2f\t%.2f\n", m.Name, middle, 100*(slices.Max(medians)-slices.Min(medians))/middle,
			100*medianOf(scatter)/middle)
	}
	_ = w.Flush() // to a string
	return text.String()
}

// valuesOf are the values of a metric in a run.
func valuesOf(r *bench.Run, metric int) (values []float64) {
	for _, s := range r.Samples {
		if v, ok := s.Value(metric); ok && !s.Trial.Warmup() {
			values = append(values, v)
		}
	}
	return values
}

// deviation is the standard deviation of values; 0 of one.
func deviation(values []float64) float64 {
	mean, sum := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(max(len(values)-1, 1)))
}
