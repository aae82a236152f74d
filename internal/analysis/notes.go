package analysis

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// notes turns the marks of trials, and the outcomes of a survey's parts, into warnings:
// one warning for all cells that have the same mark.
func (w *warner) notes() {
	first := make(map[mark]mark)  // by the mark without digits
	cells := make(map[mark][]int) // by the first
	type told struct {
		mark
		cell int
	}
	seen := make(map[told]bool)
	for i := range w.table.run.Samples {
		s := &w.table.run.Samples[i]
		if s.Trial.Warmup() {
			continue
		}
		for _, m := range trialMarks(s) {
			one := told{m.kind(), s.Trial.Cell}
			if seen[one] {
				continue
			}
			seen[one] = true
			same := m.alike()
			if _, ok := first[same]; !ok {
				first[same] = m
			}
			cells[first[same]] = append(cells[first[same]], s.Trial.Cell)
		}
	}
	cells = mergeParts(cells)
	for _, m := range slices.SortedFunc(maps.Keys(cells), mark.compare) {
		text, hint, metric := w.text(m, w.withoutControls(cells[m]))
		w.add(m.code, text, hint, metric, cells[m]...)
	}
	w.mixedChoices(cells)
}

// A mark is a fact about trials that the report tells.
type mark struct {
	code     string // of a note, or of the outcome of a part
	part     string // one or more parts of a survey, separated by commas; empty for a note
	workload string // of the part, if it has another name
	reason   string
}

// trialMarks lists the marks of one trial.
func trialMarks(s *bench.Sample) (all []mark) {
	for _, note := range s.Notes {
		all = append(all, mark{code: note})
	}
	return append(all, partMarks(s.Parts)...)
}

// kind is the mark without its reason, which may have other words in each trial and
// is told once.
func (m mark) kind() mark {
	m.reason = ""
	return m
}

// alike is the mark without the times, ports and IDs by which one reason differs from cell to cell.
func (m mark) alike() mark {
	m.reason = bench.ReasonKind(m.reason)
	return m
}

// compare orders marks by code.
func (m mark) compare(o mark) int {
	return cmp.Or(
		cmp.Compare(m.code, o.code), cmp.Compare(m.part, o.part),
		cmp.Compare(m.workload, o.workload), cmp.Compare(m.reason, o.reason),
	)
}

// text returns the text and the advice of a mark for some cells, and its metric.
func (w *warner) text(m mark, of []int) (text, hint, metric string) {
	cells := w.names(of)
	if m.part != "" {
		text, hint = m.partWords(cells, w.partFailures(m.part, of))
		return text, hint, ""
	}
	i := slices.IndexFunc(w.known, func(n bench.Note) bool { return n.Code == m.code })
	if i < 0 {
		return "trials of " + cells + " are marked " + m.code,
			"this version of tare does not know this mark: see the documentation of the version that made the run", ""
	}
	n := w.known[i]
	return strings.ReplaceAll(n.Text, "{cells}", cells), n.Advice, n.Metric
}

// mixedChoices warns if a workload was free to choose between methods and chose different ones
// for different cells.
func (w *warner) mixedChoices(noted map[mark][]int) {
	type choice struct {
		bench.Note
		said  []string
		cells []int
	}
	var all []*choice
	for _, n := range w.known {
		in := noted[mark{code: n.Code}]
		if n.MixedChoices == nil || len(in) == 0 {
			continue
		}
		i := slices.IndexFunc(all, func(c *choice) bool { return c.Code == n.MixedChoices.Code })
		if i < 0 {
			i, all = len(all), append(all, &choice{Note: *n.MixedChoices})
		}
		all[i].said = append(all[i].said, n.Choice+" by "+w.names(w.withoutControls(in)))
		all[i].cells = append(all[i].cells, in...)
	}
	for _, c := range all {
		if len(c.said) > 1 {
			w.add(c.Code, strings.ReplaceAll(c.Text, "{ways}", strings.Join(c.said, "; ")), c.Advice, c.Metric, c.cells...)
		}
	}
}
