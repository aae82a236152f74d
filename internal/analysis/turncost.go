package analysis

import (
	"math"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// A TurnCost says what turns have cost the trials of a cell: means over those of its trials that took turns, without
// warm-up.
type TurnCost struct {
	Cell   int // index in the plan
	Trials int
	Turns  float64 // of a trial
	// Time is how long those turns of a trial were that lasted for a slice, and Lost the part of it in which nothing
	// was measured; in seconds. Both are 0 where a turn is a whole container.
	Time, Lost float64
}

// TurnCosts lists the cells that took turns, in the order of the plan. A control is like its baseline, so it is left
// out.
func TurnCosts(r *bench.Run) []TurnCost {
	turns := metricsOf(r, bench.StateTurns)
	spent, lost := metricsOf(r, bench.StateTurnsTime), metricsOf(r, bench.StateTurnsLost)
	byCell := make([]TurnCost, len(r.Header.Plan.Cells))
	for i := range r.Samples {
		s := &r.Samples[i]
		n := sumOf(s, turns)
		if s.Trial.Warmup() || s.Outcome != bench.OK || n == 0 {
			continue
		}
		c := &byCell[s.Trial.Cell]
		c.Trials++
		add := func(mean *float64, value float64) { *mean += (value - *mean) / float64(c.Trials) }
		add(&c.Turns, n)
		add(&c.Time, sumOf(s, spent))
		add(&c.Lost, sumOf(s, lost))
	}
	var all []TurnCost
	for cell, c := range byCell {
		if c.Cell = cell; c.Trials > 0 && !r.Header.Plan.Cells[cell].Control {
			all = append(all, c)
		}
	}
	return all
}

// metricsOf returns the indices of the metrics of that name, also of parts.
func metricsOf(r *bench.Run, name string) (all []int) {
	for i, m := range r.Header.Metrics {
		if m.Name == name || strings.HasSuffix(m.Name, "."+name) {
			all = append(all, i)
		}
	}
	return all
}

// sumOf adds up values that are not negative. What only a foreign run can have does not count.
func sumOf(s *bench.Sample, metrics []int) (sum float64) {
	const most = math.MaxInt64 // nothing has more turns, and nothing lasts longer
	for _, i := range metrics {
		if v, ok := s.Value(i); ok && v > 0 && v < most {
			sum += v
		}
	}
	return sum
}
