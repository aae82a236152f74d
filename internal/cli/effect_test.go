package cli_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/report"
)

// planted is by how much longer one runtime takes to start a container.
// It is several times as long as what disturbs a start on a busy machine.
const planted = 20e-3 // s

// A runtime that sleeps 20 ms is found to be slower by 20 ms, and the same
// runtime under another name is not found to differ, in each metric that the
// sleep is in.
//
// Each interval is one of 95 %, and each family of tests has its 5 %: by
// construction, one run in ten or so misses the truth in a metric or sees a
// difference where none is. That fewer than two of four runs are right about a
// metric happens once in some hundred times if they are right nine times in ten.
func TestPlantedDelayIsFound(t *testing.T) {
	require(t, "runc")
	p := newPlace(t)
	quick, slow := p.runtime(t, "runc.start.0ms"), p.runtime(t, "runc.start.20ms")
	metrics := []string{"first_instruction", "total", "start"}
	const runs, want = 4, 2
	right := map[string]int{}
	for seed := range runs {
		d := p.measurePlanted(t, quick, slow, seed)
		for _, name := range metrics {
			if wrong := misses(t, d, name); len(wrong) > 0 {
				t.Logf("seed %d, %s: %s", seed, name, strings.Join(wrong, "; "))
				continue
			}
			right[name]++
		}
		if !slices.ContainsFunc(metrics, func(name string) bool { return right[name] < want }) {
			return
		}
	}
	t.Errorf("of %d runs, so many saw what is there and nothing else: %v; want %d for each metric", runs, right, want)
}

// measurePlanted measures the quick runtime twice and the slow one.
func (p *place) measurePlanted(t *testing.T, quick, slow string, seed int) (d report.Document) {
	t.Helper()
	s := p.must(t, "run", "lifecycle", "--json", "--seed", fmt.Sprint(seed),
		"--engine", "oci,name=quick,binary="+quick,
		"--engine", "oci,name=again,binary="+quick,
		"--engine", "oci,name=slow,binary="+slow,
		"--baseline", "quick", "--blocks", "30", "--warmup", "1", "--washout", "30ms", "--precision", "off")
	decode(t, s.stdout, &d)
	return d
}

// misses says in which ways a run misses the truth about a metric.
func misses(t *testing.T, d report.Document, name string) (wrong []string) {
	t.Helper()
	m := d.Metrics[slices.IndexFunc(d.Metrics, func(m report.Metric) bool { return m.Name == name })]
	c := m.Conditions[0]
	base, again, late := c.Rows[0], c.Rows[1], c.Rows[2]
	low, high := *late.Effect.Low, *late.Effect.High
	if m.Scale == "ratio" {
		low, high = (low-1)**base.Median, (high-1)**base.Median
	}
	t.Logf("%s: slower by %.2f to %.2f ms: %s; again: %s; control unreliable: %v",
		name, low*1e3, high*1e3, late.Effect.Verdict, again.Effect.Verdict, c.Unreliable)
	if low > planted || planted > high {
		wrong = append(wrong, "20 ms is not inside the interval")
	}
	if v := late.Effect.Verdict; v != "worse" {
		wrong = append(wrong, "the slow one is "+v)
	}
	if v := again.Effect.Verdict; v != "same" && v != "unclear" {
		wrong = append(wrong, "the same runtime is "+v)
	}
	if c.Unreliable {
		wrong = append(wrong, "the control differs")
	}
	return wrong
}
