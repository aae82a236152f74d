package app

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tare-bench/tare/internal/analysis/timeline"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// Timelines describe where the time of a run's starts goes, in the words of a report, or that of another metric: see
// tracedMetric. Cell and vs are what a user calls cells, by which the result is narrowed: to one cell, against the
// baseline of its condition or against another cell. Without a cell it has all of them, unless there is only one that
// is compared. If a run, or a cell or metric that is meant, has no timeline, the error is a Problem.
func Timelines(run *bench.Run, of, cell, vs string) (*report.Timelines, error) {
	plan := &run.Header.Plan
	metric, err := tracedMetric(run, of)
	if err != nil {
		return nil, err
	}
	r := timeline.Analyze(run, metric)
	if err := checkTimeline(run, r); err != nil {
		return nil, err
	}
	pairs := report.BaselinePairs(plan)
	if cell == "" && len(pairs) == 1 {
		cell = plan.Cells[pairs[0].Cell].FullName()
	}
	if cell == "" && vs == "" {
		return report.NewTimelines(plan, r, pairs), nil
	}
	if cell == "" {
		return nil, &Problem{
			Kind: NoTimeline, Run: run.Header.ID, Names: TracedCells(run),
			Err: fmt.Errorf("several cells can be compared with %q: name one of them", vs),
		}
	}
	chosen, err := tracedCell(run, r, cell)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pairs, func(p report.TimelinePair) bool { return p.Cell == chosen })
	switch {
	case vs != "":
		other, err := tracedCell(run, r, vs)
		if err != nil {
			return nil, err
		}
		pairs = []report.TimelinePair{{Cell: chosen, Base: other}}
	case i < 0: // the baseline itself
		pairs = nil
	default:
		pairs = pairs[i : i+1]
	}
	return report.NewTimelines(plan, narrowed(r, chosen, pairs), pairs), nil
}

// tracedMetric is the metric that is meant, as a name of it or of what Explainable lists; "" stays so.
func tracedMetric(run *bench.Run, of string) (string, error) {
	all := timeline.Metrics(run)
	if of == "" || len(all) == 0 || slices.Contains(all, of) {
		return of, nil
	}
	for _, e := range Explainable() {
		if e.Name == of && slices.Contains(all, e.Metric) {
			return e.Metric, nil
		}
	}
	return "", &Problem{
		Kind: NoTimelineOf, Names: all, Run: run.Header.ID,
		Err: fmt.Errorf("run %s has no timeline of %.40q", run.Header.ID, of),
	}
}

// narrowed is a result with the cell that was chosen first, and what it is compared with.
func narrowed(r *timeline.Result, chosen int, pairs []report.TimelinePair) *timeline.Result {
	out := *r
	out.Cells = nil
	for _, i := range []int{chosen, baseOf(pairs)} {
		if c := r.Of(i); c != nil && (i != chosen || len(out.Cells) == 0) {
			out.Cells = append(out.Cells, *c)
		}
	}
	return &out
}

func baseOf(pairs []report.TimelinePair) int {
	if len(pairs) == 0 {
		return -1
	}
	return pairs[0].Base
}

// tracedCell is the index of a cell that has a timeline, by its full name.
func tracedCell(run *bench.Run, r *timeline.Result, name string) (int, error) {
	cells := run.Header.Plan.Cells
	i := slices.IndexFunc(cells, func(c bench.Cell) bool { return !c.Control && c.FullName() == name })
	if i >= 0 && r.Of(i) != nil {
		return i, nil
	}
	err := fmt.Errorf("run %s has no cell %q", run.Header.ID, name)
	if i >= 0 {
		err = fmt.Errorf("run %s has no timeline of %s", run.Header.ID, name)
	}
	return -1, &Problem{Kind: NoTimeline, Err: err, Run: run.Header.ID, Names: TracedCells(run)}
}

// TracedCells are the full names of the cells that have traced trials.
func TracedCells(run *bench.Run) (names []string) {
	for i := range run.Samples {
		s := &run.Samples[i]
		c := &run.Header.Plan.Cells[s.Trial.Cell]
		if name := c.FullName(); s.Trial.Traced && !c.Control && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// checkTimeline says why a run has no timeline; nil if it has one.
func checkTimeline(run *bench.Run, r *timeline.Result) error {
	if len(r.Cells) > 0 {
		return nil
	}
	why := errors.New("no trial was traced")
	if run.Header.Plan.Timeline > 0 {
		why = errors.New("it ended before a trial was traced")
	}
	for _, w := range run.Header.Warnings {
		if w.Code == CodeNotTraced {
			why = errors.New(w.Text)
		}
	}
	id := run.Header.ID
	return &Problem{Kind: NoTimeline, Err: fmt.Errorf("run %s has no timeline: %w", id, why), Run: id}
}
