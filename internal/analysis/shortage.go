package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// Decisive returns how many blocks a run of the plan takes to tell any difference from
// chance, however large, at a look, the first being 1: the exact test is held to what
// Holm's adjustment leaves of that look's level for each of the comparisons. They are as
// many as there are if every primary metric has values; with one alone, least would do. All are 0 where nothing is compared, or where
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
	return max(minPairs, look(at).minPairs(1)), look(at).minPairs(comparisons), comparisons
}

// A shortage is the metrics that have too few pairs in the same cells.
type shortage struct {
	none    bool // no pair at all
	cells   []int
	metrics []bench.Metric
}

// fewPairs warns once of the metrics of a shortage: where a part of a survey fails,
// all that it measures is missing.
func (w *warner) fewPairs() {
	for _, s := range w.shortages() {
		var titles, names []string
		for _, m := range s.metrics {
			titles, names = append(titles, m.Title), append(names, m.Name)
		}
		blocks, hint := fmt.Sprintf("fewer than %d blocks: there is no 95 %% interval", minPairs), w.more(0, "")
		if s.none {
			blocks, hint = "no block", "a value is missing, or has no ratio: see the other notes, and each trial with tare show "+w.Header.ID+" --trials"
		}
		w.add(CodeFewPairs, fmt.Sprintf("%s: %s can be compared with the baseline in %s", strings.Join(titles, "; "), w.names(s.cells), blocks),
			hint, names[0], s.cells...)
		w.list[len(w.list)-1].Also = names[1:]
	}
}

// shortages leaves out metrics of which nobody has a value: the run does not measure them.
func (w *warner) shortages() (all []*shortage) {
	n := w.successes()
	for _, m := range w.primary() {
		for _, none := range []bool{false, true} {
			cells := m.short(n, none)
			if len(cells) == 0 || !m.measured() {
				continue
			}
			i := slices.IndexFunc(all, func(s *shortage) bool { return s.none == none && slices.Equal(s.cells, cells) })
			if i < 0 {
				i, all = len(all), append(all, &shortage{none: none, cells: cells})
			}
			all[i].metrics = append(all[i].metrics, m.result.Metric)
		}
	}
	return all
}

// short lists the cells with too few pairs, or with none, that have successful trials
// enough; n counts those.
func (m *measure) short(n []int, none bool) (cells []int) {
	for i := range m.result.Conditions {
		c := m.tables[i]
		for _, e := range c.effects {
			if pairs := e.cmp.Pairs; pairs < minPairs && (pairs == 0) == none && n[e.cell] >= minPairs && n[c.baseline] >= minPairs {
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
