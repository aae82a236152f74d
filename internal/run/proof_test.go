package run_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// A noise is what a machine adds to the logarithm of a speed: a sum of processes that forget what they
// were within a time each, steps, and what differs from slice to slice.
type noise struct {
	name    string
	forgets []time.Duration // each process has a standard deviation of 3 %
	steps   bool            // by ±10 %, every 20 s on average
	white   float64         // standard deviation from slice to slice
}

func noises() []noise {
	return []noise{
		{"white", nil, false, 0.05},
		{"10 ms", []time.Duration{10 * time.Millisecond}, false, 0},
		{"1 s", []time.Duration{time.Second}, false, 0},
		{"1 min", []time.Duration{time.Minute}, false, 0},
		{"steps", nil, true, 0},
		{"all", []time.Duration{10 * time.Millisecond, time.Second, time.Minute}, true, 0.05},
	}
}

// grid is the step of a path of noise.
const grid = time.Millisecond

// path returns the sums of a noise from the beginning of a run on, by grid.
func (n noise) path(r *rand.Rand, length time.Duration) []float64 {
	sums := make([]float64, int(length/grid)+1)
	state := make([]float64, len(n.forgets))
	for i := range state {
		state[i] = 0.03 * r.NormFloat64()
	}
	level := 0.0
	for i := 1; i < len(sums); i++ {
		now := level
		for k, tau := range n.forgets {
			keep := math.Exp(-float64(grid) / float64(tau))
			state[k] = keep*state[k] + 0.03*math.Sqrt(1-keep*keep)*r.NormFloat64()
			now += state[k]
		}
		if n.steps && r.Float64() < float64(grid)/float64(20*time.Second) {
			level = 0.1 * (2*float64(r.IntN(2)) - 1)
		}
		sums[i] = sums[i-1] + now
	}
	return sums
}

// A simulation is a run of three cells: the baseline, one that is the same, and one that is 3 % slower.
// Each start of a cell differs by 0.5 % from another.
type simulation struct {
	noise
	seed  uint64
	slice time.Duration // 0 = whole trials
}

const (
	simulatedWork   = 500 * time.Millisecond // of a trial
	simulatedStart  = 150 * time.Millisecond
	simulatedBlocks = 12
	simulatedSlower = 1.03
	simulatedStarts = 0.005
)

// result runs the simulation with the real runner in a time of its own, and analyses it.
func (s simulation) result(t *testing.T) *analysis.Result {
	t.Helper()
	var result *analysis.Result
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(s.seed, 1))
		sums := s.path(r, 4*simulatedBlocks*(simulatedWork+simulatedStart)+time.Minute)
		began := time.Now()
		mean := func(from, to time.Time) float64 {
			i, j := int(from.Sub(began)/grid), int(to.Sub(began)/grid)
			return (sums[j] - sums[i]) / float64(j-i)
		}
		work := func(ctx context.Context, task bench.Task, m bench.Meter) error {
			time.Sleep(simulatedStart)
			own := simulatedStarts * r.NormFloat64()
			if task.Engine.Name() == "slower" {
				own += math.Log(simulatedSlower)
			}
			each, turns := simulatedWork, 1
			if s.slice > 0 {
				each, turns = s.slice, int(simulatedWork/s.slice)
			}
			sum := 0.0
			for turn := range turns {
				if s.slice > 0 {
					if _, err := task.Turns.Wait(ctx, turn == 0); err != nil {
						return err
					}
				}
				from := time.Now()
				time.Sleep(each)
				sum += mean(from, time.Now()) + s.white*math.Sqrt(float64(simulatedWork)/float64(each)/25)*r.NormFloat64()
			}
			m.Record("work", math.Exp(own+sum/float64(turns)))
			return nil
		}
		p := bench.Plan{MaxBlocks: simulatedBlocks, MinBlocks: simulatedBlocks, Seed: s.seed, Slice: s.slice}
		b := newHarness(t, p, work, "base", "same", "slower")
		b.options.Header.Plan.Cells[0].Baseline = true
		b.options.Header.ID = fmt.Sprint("simulated-", s.seed)
		end, err := run.Run(t.Context(), b.options)
		if err != nil {
			t.Fatal(err)
		}
		all := &bench.Run{Header: b.options.Header, Samples: b.writer.samples, End: &end}
		if result, err = analysis.Analyze(all, analysis.Options{}); err != nil {
			t.Fatal(err)
		}
	})
	return result
}

// Intervals and verdicts hold with turns as they do with whole trials, whatever disturbs the machine:
// the effect of 3 % is inside its interval, and what is the same is not called different.
func TestTurnsCoverage(t *testing.T) {
	runs := analysistest.Repetitions(20, 400)
	for _, n := range noises() {
		widths := map[time.Duration]float64{}
		for _, slice := range []time.Duration{0, 20 * time.Millisecond} {
			covered, alarms := 0, 0
			var width []float64
			for seed := range runs {
				r := simulation{n, uint64(seed), slice}.result(t)
				cells := r.Metrics[0].Conditions[0].Cells
				same, slower := cells[1].Comparison, cells[2].Comparison
				if slower.Low <= simulatedSlower && simulatedSlower <= slower.High {
					covered++
				}
				if same.Verdict == analysis.Better || same.Verdict == analysis.Worse || same.Verdict == analysis.Different {
					alarms++
				}
				width = append(width, slower.HalfWidth())
			}
			slices.Sort(width)
			widths[slice] = width[len(width)/2]
			t.Logf("%-6s slice %-5v covered %5.1f %%, false alarms %4.1f %%, half-width %.2f %%", n.name, slice,
				100*float64(covered)/float64(runs), 100*float64(alarms)/float64(runs), 100*widths[slice])
			// Three standard errors of the share.
			slack := 3 * math.Sqrt(0.05*0.95/float64(runs))
			if float64(covered) < (0.95-slack)*float64(runs) || float64(alarms) > (0.05+slack)*float64(runs) {
				t.Errorf("%s, slice %v: %d of %d covered, %d false alarms", n.name, slice, covered, runs, alarms)
			}
		}
		// What lasts about as long as a trial is what whole trials cannot cancel.
		if n.name == "1 s" && widths[20*time.Millisecond] > widths[0]/2 {
			t.Errorf("%s: turns narrow ±%.2f %% to ±%.2f %% only", n.name, 100*widths[0], 100*widths[20*time.Millisecond])
		}
	}
}
