package timeline

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/analysis/stat"
)

const (
	confidence  = 0.95
	mostReasons = 4 // of a row
)

// A tally is what the tiles of one row sum to in one trial.
type tally struct {
	sum       time.Duration
	processes map[int]bool // by lane
	reasons   map[string]*reasonTally
}

type reasonTally struct {
	sum   time.Duration
	times int
}

// tallies sums up the tiles of a timeline by row.
func (t *Timeline) tallies() map[Key]*tally {
	all := map[Key]*tally{}
	for i := range t.Tiles {
		tile := &t.Tiles[i]
		k := Key{t.Lanes[tile.Lane].Role, tile.Kind, tile.Class}
		row := all[k]
		if row == nil {
			row = &tally{processes: map[int]bool{}, reasons: map[string]*reasonTally{}}
			all[k] = row
		}
		row.sum += tile.Duration
		row.processes[tile.Lane] = true
		if tile.Reason == "" {
			continue
		}
		reason := row.reasons[tile.Reason]
		if reason == nil {
			reason = &reasonTally{}
			row.reasons[tile.Reason] = reason
		}
		reason.sum += tile.Duration
		reason.times++
	}
	return all
}

// rows are the means of some timelines, of which tallies are given: the longest row first.
func rows(trials []map[Key]*tally, value time.Duration) []Row {
	var all []Row
	for _, k := range keys(trials) {
		r := Row{Key: k, Mean: meanOf(sums(trials, k), confidence)}
		if value > 0 {
			r.Share = float64(r.Mean.Value) / float64(value)
		}
		r.Processes, r.Reasons = details(trials, k)
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b Row) int { return cmp.Compare(b.Mean.Value, a.Mean.Value) })
	return all
}

// keys lists all rows, in an order that does not depend on chance.
func keys(trials []map[Key]*tally) []Key {
	seen := map[Key]bool{}
	var all []Key
	for _, t := range trials {
		for k := range t {
			if !seen[k] {
				seen[k] = true
				all = append(all, k)
			}
		}
	}
	slices.SortFunc(all, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Class, b.Class))
	})
	return all
}

// sums are those of one row in each trial; 0 where a trial has no such tile.
func sums(trials []map[Key]*tally, k Key) []float64 {
	all := make([]float64, len(trials))
	for i, t := range trials {
		if row := t[k]; row != nil {
			all[i] = float64(row.sum)
		}
	}
	return all
}

// details are how many processes a row has, and what its time was spent on.
func details(trials []map[Key]*tally, k Key) (processes float64, reasons []Reason) {
	n := float64(len(trials))
	total := map[string]*reasonTally{}
	for _, t := range trials {
		row := t[k]
		if row == nil {
			continue
		}
		processes += float64(len(row.processes))
		for name, r := range row.reasons {
			if total[name] == nil {
				total[name] = &reasonTally{}
			}
			total[name].sum += r.sum
			total[name].times += r.times
		}
	}
	for name, r := range total {
		mean := time.Duration(math.Round(float64(r.sum) / n))
		reasons = append(reasons, Reason{Name: name, Mean: mean, Times: float64(r.times) / n})
	}
	slices.SortFunc(reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Mean, a.Mean), cmp.Compare(a.Name, b.Name))
	})
	return processes / n, reasons[:min(len(reasons), mostReasons)]
}

// meanOf is the mean of some nanoseconds, with the interval of a confidence.
func meanOf(ns []float64, confidence float64) Mean {
	mean, i, ok := stat.Mean(ns, confidence)
	m := Mean{Value: duration(mean), HasInterval: ok}
	m.Low, m.High = m.Value, m.Value
	if ok {
		m.Low, m.High = duration(i.Low), duration(i.High)
	}
	return m
}

// duration is a number of nanoseconds; 0 for none.
func duration(ns float64) time.Duration {
	if math.IsNaN(ns) {
		return 0
	}
	return time.Duration(math.Round(ns))
}
