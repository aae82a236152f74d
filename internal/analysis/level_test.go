package analysis_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
)

// levelRun is a run of two cells with so much noise on each level.
func levelRun(start, round, slice float64, blocks, rounds int) *bench.Run {
	random := rand.New(rand.NewPCG(1, 2))
	r := &bench.Run{Header: bench.Header{
		Plan:    bench.Plan{Cells: []bench.Cell{{Name: "native", Baseline: true}, {Name: "runc"}}},
		Metrics: []bench.Metric{{Name: "cpu.single"}, {Name: "memory.copy"}},
	}}
	for block := range blocks {
		shared := make([]float64, rounds)
		for i := range shared {
			shared[i] = round * random.NormFloat64()
		}
		for cell := range 2 {
			speeds, mine := make([]float64, rounds), start*random.NormFloat64()
			for i := range speeds {
				speeds[i] = 1000 * math.Exp(mine+shared[i]+slice*random.NormFloat64())
			}
			r.Samples = append(r.Samples, bench.Sample{
				Trial:   bench.Trial{Seq: len(r.Samples), Block: block, Cell: cell},
				Outcome: bench.OK, Series: []bench.Series{{Metric: "cpu.single.slices", Values: speeds}},
			})
		}
	}
	return r
}

// The noise of each level is found where it is, whatever the others are.
func TestLevels(t *testing.T) {
	for name, sd := range map[string]struct{ start, round, slice float64 }{
		"starts":  {0.02, 0.001, 0.001},
		"rounds":  {0.002, 0.05, 0.001},
		"slices":  {0, 0.01, 0.03},
		"of each": {0.01, 0.03, 0.02},
	} {
		all := analysis.Levels(levelRun(sd.start, sd.round, sd.slice, 400, 50))
		if len(all) != 1 {
			t.Fatalf("%s: %+v", name, all)
		}
		l := all[0]
		if l.Metric != "cpu.single" || l.Cell != 1 || l.Baseline != 0 || l.Blocks != 400 || l.Rounds != 45 {
			t.Errorf("%s: %+v", name, l)
		}
		fresh := 2 * sd.slice * sd.slice / 45
		for _, part := range []struct {
			what            string
			got, want, near float64
		}{
			{"starts", l.Start, sd.start, 0.1*sd.start + 0.0005},
			{"rounds", l.Round, sd.round, 0.05*sd.round + 0.0005},
			{"slices", l.Slice, sd.slice, 0.05 * sd.slice},
			{"pair", l.Pair, math.Sqrt(2*sd.start*sd.start + fresh), 0.1 * l.Pair},
			{"share of starts", l.StartShare, 1 - fresh/(2*sd.start*sd.start+fresh), 0.15},
		} {
			if math.Abs(part.got-part.want) > part.near {
				t.Errorf("%s: %s %.5f, want %.5f", name, part.what, part.got, part.want)
			}
		}
	}
}

// A run without turns, one with a single block, and one whose slices say nothing.
func TestNoLevels(t *testing.T) {
	whole := levelRun(0.1, 0.1, 0.1, 5, 5)
	for i := range whole.Samples {
		whole.Samples[i].Series = nil
	}
	still := levelRun(0.1, 0.1, 0.1, 5, 5)
	for i := range still.Samples {
		still.Samples[i].Series[0].Values = make([]float64, 5)
	}
	for name, r := range map[string]*bench.Run{
		"whole": whole, "zeros": still,
		"one block": levelRun(0.1, 0.1, 0.1, 1, 50), "one slice": levelRun(0.1, 0.1, 0.1, 5, 1),
	} {
		if all := analysis.Levels(r); len(all) != 0 {
			t.Errorf("%s: %+v, want none", name, all)
		}
	}
}
