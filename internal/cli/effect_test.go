package cli_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tare-bench/tare/internal/report"
)

// plantedDelay is by how much longer one runtime takes to start a container.
// It is several times as long as what disturbs a start on a busy machine.
const plantedDelay = 20e-3 // s

// A runtime that takes 20 ms more to start is found to be slower by 20 ms, and the same
// runtime under another name is not found to differ, in each metric that the delay is in.
//
// Both runtimes wait, 20 and 40 ms. Meanwhile the container's first process waits, too, and what follows
// takes up to 0.8 ms longer than after no wait, because caches are colder.
//
// The short form wants what any change to schedule, drivers or analysis would
// break: the slow runtime is found. The long one counts in how many runs an
// interval misses the 20 ms, and in how many a difference is claimed where none is.
func TestPlantedDelayIsFound(t *testing.T) {
	require(t, "runc")
	p := newTestEnv(t)
	quick, slow := p.runtime(t, "runc.start.20ms"), p.runtime(t, "runc.start.40ms")
	metrics := []string{"first_instruction", "total", "start"}
	runs, blocks := 10, 20
	if testing.Short() {
		runs, blocks = 1, 15
	}
	missed, claimed := map[string]int{}, 0
	for seed := range runs {
		d := p.measurePlanted(t, quick, slow, seed, blocks)
		claims := false
		for _, name := range metrics {
			claims = slowIsFound(t, d, name) || claims
			if !holdsTruth(t, d, name) {
				missed[name]++
			}
		}
		claimed += one(claims)
	}
	if testing.Short() {
		return
	}
	for _, name := range metrics {
		wantAtMost(t, missed[name], runs, 0.05, "intervals of "+name+" missed the 20 ms")
	}
	wantAtMost(t, claimed, runs, 0.05, "runs claimed a difference between a runtime and itself")
}

// measurePlanted measures the quick runtime twice and the slow one.
func (p *testEnv) measurePlanted(t *testing.T, quick, slow string, seed, blocks int) (d report.Document) {
	t.Helper()
	s := p.must(t, "run", "lifecycle", "--json", "--seed", fmt.Sprint(seed),
		"--engine", "oci,name=quick,binary="+quick,
		"--engine", "oci,name=again,binary="+quick,
		"--engine", "oci,name=slow,binary="+slow,
		"--baseline", "quick", "--blocks", fmt.Sprint(blocks), "--warmup", "1", "--washout", "30ms", "--precision", "off")
	decode(t, s.stdout, &d)
	return d
}

// rows are those of a metric: the quick runtime, the same again, and the slow one.
func rows(d report.Document, name string) (c report.Condition, base, again, late report.Row) {
	m := d.Metrics[slices.IndexFunc(d.Metrics, func(m report.Metric) bool { return m.Name == name })]
	c = m.Conditions[0]
	return c, c.Rows[0], c.Rows[1], c.Rows[2]
}

// slowIsFound wants the slow runtime to be worse by some 20 ms. It reports whether
// the run also says that the quick one differs from itself.
func slowIsFound(t *testing.T, d report.Document, name string) (claims bool) {
	t.Helper()
	c, base, again, late := rows(d, name)
	by := *late.Effect.Estimate
	if late.Effect.Scale == "ratio" {
		by = (by - 1) * *base.Median
	}
	if late.Effect.Verdict != "worse" && !c.Unreliable || by < plantedDelay/2 || by > plantedDelay*2 {
		t.Errorf("%s: the slow runtime is %s, by %.2f ms; want worse by %.0f ms",
			name, late.Effect.Verdict, by*1e3, plantedDelay*1e3)
	}
	return c.Unreliable || again.Effect.Verdict == "worse" || again.Effect.Verdict == "better"
}

// holdsTruth reports whether the interval of the slow runtime holds the 20 ms.
func holdsTruth(t *testing.T, d report.Document, name string) bool {
	t.Helper()
	_, base, _, late := rows(d, name)
	low, high := *late.Effect.Low, *late.Effect.High
	if late.Effect.Scale == "ratio" {
		low, high = (low-1)**base.Median, (high-1)**base.Median
	}
	t.Logf("%s: slower by %.2f to %.2f ms: %s", name, low*1e3, high*1e3, late.Effect.Verdict)
	return low <= plantedDelay && plantedDelay <= high
}
