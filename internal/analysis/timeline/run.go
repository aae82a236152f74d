package timeline

import (
	"cmp"
	"math"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

// Metrics are those of a run that its traces explain: first those by which it decides, then the others, in the order of
// its metrics. The first is explained if nobody asks for another.
func Metrics(run *bench.Run) (names []string) {
	traced := map[string]bool{}
	for i := range run.Samples {
		s := &run.Samples[i]
		if !s.Trial.Traced || s.Trace == nil {
			continue
		}
		for _, e := range s.Trace.Events {
			if e.Name == bench.StageEvent {
				traced[e.Source] = true
			}
		}
	}
	var others []string
	for _, m := range run.Header.Metrics {
		switch {
		case !traced[m.Name]:
		case run.Header.Plan.Role(m) == bench.Primary:
			names = append(names, m.Name)
		default:
			others = append(others, m.Name)
		}
	}
	return append(names, others...)
}

// Analyze makes the timelines of all traced trials of a run, which must have been read with the traces of its samples:
// of a metric, or of the first of Metrics if the name is empty. It does not change the run. The result has no Cells if no
// trial was traced.
func Analyze(run *bench.Run, metric string) *Result {
	if all := Metrics(run); metric == "" && len(all) > 0 {
		metric = all[0]
	}
	r := &Result{Metric: metric}
	cells := make([]*Cell, len(run.Header.Plan.Cells))
	for i := range run.Samples {
		s := &run.Samples[i]
		c := s.Trial.Cell
		if !s.Trial.Traced || c < 0 || c >= len(cells) || s.Outcome == bench.Unsupported {
			continue
		}
		if cells[c] == nil {
			cells[c] = &Cell{Cell: c}
		}
		if s.Outcome != bench.OK {
			cells[c].Failed++
			continue
		}
		t, metric := newTimeline(s, r.Metric)
		r.Metric = cmp.Or(r.Metric, metric)
		cells[c].Timelines = append(cells[c].Timelines, t)
	}
	at := slices.IndexFunc(run.Header.Metrics, func(m bench.Metric) bool { return m.Name == r.Metric })
	if at >= 0 {
		r.Title = run.Header.Metrics[at].Title
	}
	for _, c := range cells {
		if c == nil {
			continue
		}
		c.summarize()
		c.timed = timedOf(run, c.Cell, at)
		c.Cost = c.cost()
		r.Cells = append(r.Cells, *c)
	}
	return r
}

// Of returns the cell with an index in Plan.Cells; nil if it has no traced trials.
func (r *Result) Of(cell int) *Cell {
	for i := range r.Cells {
		if r.Cells[i].Cell == cell {
			return &r.Cells[i]
		}
	}
	return nil
}

// summarize computes what the complete timelines of a cell say together.
func (c *Cell) summarize() {
	var trials []map[Key]*tally
	var values []float64
	var complete []int
	c.Typical = -1
	for i := range c.Timelines {
		t := &c.Timelines[i]
		c.Lost, c.NoStack = c.Lost+t.Lost, c.NoStack+t.NoStack
		if t.Incomplete != "" {
			c.Incomplete = cmp.Or(c.Incomplete, t.Incomplete)
			continue
		}
		complete = append(complete, i)
		trials = append(trials, t.tallies())
		values = append(values, float64(t.Value))
	}
	if c.Complete = len(complete); c.Complete == 0 {
		return
	}
	slices.SortStableFunc(complete, func(a, b int) int { return cmp.Compare(c.Timelines[a].Value, c.Timelines[b].Value) })
	c.Typical = complete[(len(complete)-1)/2]
	c.Value = meanOf(values, confidence)
	c.Rows = rows(trials, c.Value.Value)
	for _, r := range c.Rows {
		if r.Kind == Unknown {
			c.Unknown += r.Mean.Value
		}
	}
}

// timedOf has the values of a metric in the timed trials of a cell, by block, without those that only warm up.
func timedOf(run *bench.Run, cell, metric int) map[int]float64 {
	timed := map[int]float64{}
	for i := range run.Samples {
		s := &run.Samples[i]
		counts := s.Trial.Cell == cell && !s.Trial.Traced && !s.Trial.Warmup() && s.Outcome == bench.OK
		if v, ok := s.Value(metric); ok && counts && v > 0 {
			timed[s.Trial.Block] = v
		}
	}
	return timed
}

// cost compares the complete timelines of a cell with its timed trials of the same blocks.
func (c *Cell) cost() Cost {
	var logs []float64
	for i := range c.Timelines {
		t := &c.Timelines[i]
		if v, ok := c.timed[t.Trial.Block]; ok && t.Incomplete == "" && t.Value > 0 {
			logs = append(logs, math.Log(t.Value.Seconds()/v))
		}
	}
	mean, interval, _ := stat.Mean(logs, confidence) // NaN stays NaN
	return Cost{Blocks: len(logs), Ratio: math.Exp(mean), Low: math.Exp(interval.Low), High: math.Exp(interval.High)}
}
