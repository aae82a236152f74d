package report

import (
	"math"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
)

// Timelines say where the time of one metric goes, in the trials that were traced for that. Their times
// include what tracing costs, and nothing is scaled.
type Timelines struct {
	Metric      string               `json:"metric"`
	Title       string               `json:"title"`
	Cells       []TimelineCell       `json:"cells"`       // those with traced trials
	Differences []TimelineDifference `json:"differences"` // of cells, each against its baseline
}

// A TimelineCell is the traced trials of one cell.
type TimelineCell struct {
	Cell       string        `json:"cell"`
	Condition  string        `json:"condition"`  // empty where there is none
	Complete   int           `json:"complete"`   // traced trials that count
	Incomplete int           `json:"incomplete"` // traced trials that are in no mean
	Failed     int           `json:"failed"`     // traced trials that did not succeed
	Lost       int           `json:"lost"`       // events, in all of them
	NoStack    int           `json:"no_stack"`   // events of which no functions of the kernel are known, in all of them
	Value      *Mean         `json:"value"`      // of the metric; null without a complete trial
	Cost       *Interval     `json:"cost"`       // ratio of traced trials to timed ones; null without both in one block
	Rows       []TimelineRow `json:"rows"`       // where the time goes, the longest first; they sum to the value
	Warnings   []string      `json:"warnings"`   // why its times are to be read with care

	// Drawn is the trial to draw: the one with the median value; nil without one.
	Drawn *timeline.Timeline `json:"-"`
}

// A Mean is an average over traced trials, or a difference of two, in seconds.
type Mean struct {
	Value float64  `json:"value"`
	Low   *float64 `json:"low"` // of its 95 % interval; null below 3 trials
	High  *float64 `json:"high"`
}

// A TimelineRow is time that processes of one role spent in one way.
type TimelineRow struct {
	Role      string           `json:"role"`      // of the processes
	Kind      string           `json:"kind"`      // whether they ran or waited
	Class     string           `json:"class"`     // what for
	Processes float64          `json:"processes"` // of that role, on average
	Reasons   []TimelineReason `json:"reasons"`   // what they did or waited for; at most a few
	Mean      Mean             `json:"mean"`      // time or, in a difference, how much more
	Share     float64          `json:"share"`     // of the cell's value, 0.1 = 10 %; 0 in a difference
}

// A TimelineReason is a part of a row.
type TimelineReason struct {
	Name  string  `json:"name"`  // of a system call, a function of the kernel, or who woke it
	Mean  float64 `json:"mean"`  // seconds
	Times float64 `json:"times"` // in a trial, on average
}

// A TimelineDifference says why one cell takes longer than another.
type TimelineDifference struct {
	Cell      string        `json:"cell"`
	Base      string        `json:"base"`      // what is subtracted
	Condition string        `json:"condition"` // of the cell
	Blocks    int           `json:"blocks"`    // in which both have a complete timeline
	Mean      Mean          `json:"mean"`      // the cell minus the base
	Rows      []TimelineRow `json:"rows"`      // whose interval excludes 0, the largest first
	Folded    int           `json:"folded"`    // other rows
	Rest      float64       `json:"rest"`      // the sum of all that is not in rows; with them it is the mean

	// What the run says without tracing, to be read beside the mean.
	TimedBlocks int       `json:"timed_blocks"` // in which both have a timed trial
	Timed       *Mean     `json:"timed"`        // the cell minus the base in those; null without any
	CellCost    *Interval `json:"cell_cost"`    // ratio of traced trials to timed ones; null without both in one block
	BaseCost    *Interval `json:"base_cost"`
}

// A TimelinePair says what is compared, as indices in the plan's cells.
type TimelinePair struct{ Cell, Base int }

// NewTimelines describes the timelines of a run; nil if it has none. A pair that has no block in common
// is left out.
func NewTimelines(plan *bench.Plan, r *timeline.Result, pairs []TimelinePair) *Timelines {
	if len(r.Cells) == 0 {
		return nil
	}
	t := &Timelines{Metric: r.Metric, Title: r.Title, Cells: []TimelineCell{}, Differences: []TimelineDifference{}}
	for i := range r.Cells {
		if c := &r.Cells[i]; !plan.Cells[c.Cell].Control {
			t.Cells = append(t.Cells, newTimelineCell(plan, c))
		}
	}
	for _, p := range pairs {
		if d, ok := r.Between(p.Cell, p.Base); ok {
			t.Differences = append(t.Differences, newTimelineDifference(plan, r, &d))
		}
	}
	return t
}

// BaselinePairs pair each cell with the baseline of its condition.
func BaselinePairs(plan *bench.Plan) (pairs []TimelinePair) {
	bases := map[string]int{}
	for i, c := range plan.Cells {
		if c.Baseline {
			bases[c.Condition] = i
		}
	}
	for i, c := range plan.Cells {
		if base, ok := bases[c.Condition]; ok && !c.Baseline && !c.Control {
			pairs = append(pairs, TimelinePair{i, base})
		}
	}
	return pairs
}

func newTimelineCell(plan *bench.Plan, c *timeline.Cell) TimelineCell {
	cell := &plan.Cells[c.Cell]
	out := TimelineCell{
		Cell: cell.Name, Condition: cell.Condition, Complete: c.Complete, Incomplete: len(c.Timelines) - c.Complete,
		Failed: c.Failed, Lost: c.Lost, NoStack: c.NoStack, Cost: costInterval(c), Rows: []TimelineRow{},
		Warnings: timelineWarnings(c),
	}
	if c.Complete > 0 {
		m := newMean(c.Value)
		out.Value = &m
	}
	if c.Typical >= 0 && c.Typical < len(c.Timelines) {
		out.Drawn = &c.Timelines[c.Typical]
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		row := newTimelineRow(r.Key, r.Mean, r.Processes, r.Reasons)
		row.Share = r.Share
		out.Rows = append(out.Rows, row)
	}
	return out
}

// costInterval is what tracing costs in a cell; nil if nothing tells.
func costInterval(c *timeline.Cell) *Interval {
	if c == nil || c.Cost.Blocks == 0 {
		return nil
	}
	return &Interval{c.Cost.Blocks, number(c.Cost.Ratio), number(c.Cost.Low), number(c.Cost.High)}
}

func newTimelineDifference(plan *bench.Plan, r *timeline.Result, d *timeline.Difference) TimelineDifference {
	cell, base := &plan.Cells[d.Cell], &plan.Cells[d.Base]
	out := TimelineDifference{
		Cell: cell.Name, Base: base.Name, Condition: cell.Condition, Blocks: d.Blocks, Mean: newMean(d.Mean),
		Rows: []TimelineRow{}, Folded: len(d.Folded), Rest: d.FoldedMean().Seconds(),
		TimedBlocks: d.TimedBlocks, CellCost: costInterval(r.Of(d.Cell)), BaseCost: costInterval(r.Of(d.Base)),
	}
	if d.TimedBlocks > 0 {
		m := newMean(d.Timed)
		out.Timed = &m
	}
	if base.Condition != cell.Condition {
		out.Base = qualifiedName(base.Name, base.Condition)
	}
	for i := range d.Rows {
		x := &d.Rows[i]
		out.Rows = append(out.Rows, newTimelineRow(x.Key, x.Mean, x.Processes, x.Reasons))
	}
	return out
}

func newTimelineRow(k timeline.Key, m timeline.Mean, processes float64, reasons []timeline.Reason) TimelineRow {
	r := TimelineRow{
		Role: string(k.Role), Kind: string(k.Kind), Class: string(k.Class), Mean: newMean(m),
		Processes: finite(processes), Reasons: []TimelineReason{},
	}
	for _, x := range reasons {
		r.Reasons = append(r.Reasons, TimelineReason{x.Name, x.Mean.Seconds(), finite(x.Times)})
	}
	return r
}

func newMean(m timeline.Mean) Mean {
	out := Mean{Value: m.Value.Seconds()}
	if m.HasInterval {
		low, high := m.Low.Seconds(), m.High.Seconds()
		out.Low, out.High = &low, &high
	}
	return out
}

// finite is 0 for what JSON cannot write.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
