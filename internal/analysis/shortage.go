package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/analysis/stat"
	"github.com/tare-bench/tare/internal/bench"
)

// Decisive returns how many blocks a run of the plan needs before any difference can be
// significant at a look, the first being 1: the exact test must reach what Holm's adjustment
// leaves of that look's level for each comparison. comparisons is their number if every
// primary metric has values; least is the number of blocks for one comparison alone. All are
// 0 if nothing is compared, or if
// Analyze would refuse the plan.
func Decisive(plan bench.Plan, metrics []bench.Metric, at int) (least, blocks, comparisons int) {
	t, err := newTable(&bench.Run{Header: bench.Header{Plan: plan, Metrics: metrics}})
	if err != nil {
		return 0, 0, 0
	}
	for _, m := range t.measure(Options{}) {
		for _, c := range m.tables {
			if m.result.Metric.Role == bench.Primary {
				comparisons += len(c.effects)
			}
		}
	}
	if comparisons == 0 {
		return 0, 0, 0
	}
	return max(MinPairs, look(at).minPairs(1)), look(at).minPairs(comparisons), comparisons
}

// DecisiveTogether is Decisive for hosts that measure a plan together: each cell is compared with that of the first
// host, and so is what it adds to its baseline.
func DecisiveTogether(plan bench.Plan, metrics []bench.Metric, hosts int) (least, blocks, comparisons int) {
	t, err := newTable(&bench.Run{Header: bench.Header{Plan: plan, Metrics: metrics}})
	if err != nil {
		return 0, 0, 0
	}
	for _, role := range t.role {
		for _, g := range t.groups {
			if role == bench.Primary {
				comparisons += (hosts - 1) * (2*len(g.cells) - 1)
			}
		}
	}
	if comparisons == 0 {
		return 0, 0, 0
	}
	return stat.MinPairs(confidence, 1), stat.MinPairs(confidence, comparisons), comparisons
}

// A pairShortage is the metrics that have too few pairs in the same cells.
type pairShortage struct {
	none    bool // no pair at all
	cells   []int
	metrics []bench.Metric
}

// fewPairs gives one warning for all metrics of a shortage: if a part of a survey
// fails, all of its metrics are missing.
func (w *warner) fewPairs() {
	for _, s := range w.shortages() {
		var titles, names []string
		for _, m := range s.metrics {
			titles, names = append(titles, m.Title), append(names, m.Name)
		}
		blocks, hint := fmt.Sprintf("fewer than %d blocks, so there is no 95 %% interval", MinPairs), w.moreBlocks(0, "")
		if s.none {
			blocks, hint = "no block", "values are missing or have no ratio: see the other notes, and each trial with "+
				"tare show "+w.Header.ID+" --trials"
		}
		w.add(CodeFewPairs, fmt.Sprintf("%s: %s can be compared with the baseline in %s",
			strings.Join(titles, "; "), w.names(s.cells), blocks),
			hint, names[0], s.cells...)
		w.list[len(w.list)-1].Also = names[1:]
	}
}

// shortages groups the metrics with too few pairs by their cells. It leaves out metrics
// without any value: the run does not measure them.
func (w *warner) shortages() (all []*pairShortage) {
	n := w.successes()
	for _, m := range w.primary() {
		for _, none := range []bool{false, true} {
			cells := m.cellsShortOfPairs(n, none)
			if len(cells) == 0 || !m.measured() {
				continue
			}
			i := slices.IndexFunc(all, func(s *pairShortage) bool { return s.none == none && slices.Equal(s.cells, cells) })
			if i < 0 {
				i, all = len(all), append(all, &pairShortage{none: none, cells: cells})
			}
			all[i].metrics = append(all[i].metrics, m.result.Metric)
		}
	}
	return all
}

// cellsShortOfPairs lists the cells that have enough successful trials (n counts them), but too few
// pairs, or no pair at all.
func (m *measure) cellsShortOfPairs(n []int, none bool) (cells []int) {
	for i := range m.result.Conditions {
		c := m.tables[i]
		for _, e := range c.effects {
			if pairs := e.cmp.Pairs; pairs < MinPairs && (pairs == 0) == none && n[e.cell] >= MinPairs &&
				n[c.baseline] >= MinPairs {
				cells = append(cells, e.cell)
			}
		}
	}
	return cells
}

// measured reports whether any cell has a value.
func (m *measure) measured() bool {
	return slices.ContainsFunc(m.column, func(values []float64) bool { return len(numbers(values)) > 0 })
}
