package cli_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/report"
)

// planted is by how much longer one runtime takes to start a container.
const planted = 7e-3 // s

// A runtime that sleeps 7 ms is found to be slower by 7 ms, and the same
// runtime under another name is not found to differ.
//
// Each interval is one of 95 %, and each family of tests has its 5 %: by
// construction, one run in five or six misses the truth in some metric or sees
// a difference where none is. Four in a row do so once in a thousand times.
func TestPlantedDelayIsFound(t *testing.T) {
	require(t, "runc")
	p := newPlace(t)
	quick, slow := p.runtime(t, "runc.start.0ms"), p.runtime(t, "runc.start.7ms")
	for seed := range 4 {
		wrong := p.measurePlanted(t, quick, slow, seed)
		if len(wrong) == 0 {
			return
		}
		t.Logf("seed %d: %s", seed, strings.Join(wrong, "; "))
	}
	t.Error("no run of four saw what is there, and nothing else")
}

// measurePlanted says in which way a run misses the truth.
func (p *place) measurePlanted(t *testing.T, quick, slow string, seed int) (wrong []string) {
	t.Helper()
	s := p.must(t, "run", "lifecycle", "--json", "--seed", fmt.Sprint(seed),
		"--engine", "oci,name=quick,binary="+quick,
		"--engine", "oci,name=again,binary="+quick,
		"--engine", "oci,name=slow,binary="+slow,
		"--baseline", "quick", "--blocks", "15", "--warmup", "1", "--washout", "30ms", "--precision", "off")
	var d report.Document
	decode(t, s.stdout, &d)
	for _, name := range []string{"first_instruction", "total", "start"} {
		m := d.Metrics[slices.IndexFunc(d.Metrics, func(m report.Metric) bool { return m.Name == name })]
		c := m.Conditions[0]
		base, again, late := c.Rows[0], c.Rows[1], c.Rows[2]
		low, high := *late.Effect.Low, *late.Effect.High
		if m.Scale == "ratio" {
			low, high = (low-1)**base.Median, (high-1)**base.Median
		}
		t.Logf("seed %d, %s: slower by %.2f to %.2f ms: %s; again: %s; control unreliable: %v",
			seed, name, low*1e3, high*1e3, late.Effect.Verdict, again.Effect.Verdict, c.Unreliable)
		if low > planted || planted > high {
			wrong = append(wrong, name+": 7 ms is not inside the interval")
		}
		if v := late.Effect.Verdict; v != "worse" {
			wrong = append(wrong, name+": the slow one is "+v)
		}
		if v := again.Effect.Verdict; v != "same" && v != "unclear" {
			wrong = append(wrong, name+": the same runtime is "+v)
		}
		if c.Unreliable {
			wrong = append(wrong, name+": the control differs")
		}
	}
	return wrong
}
