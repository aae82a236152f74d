package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// partMarks tell of the parts of a survey in one trial; of those that ran apart
// together.
func partMarks(parts []bench.PartOutcome) (all []mark) {
	var apart, with, usual []string
	for _, p := range parts {
		switch {
		case p.Outcome == bench.Failed:
			all = append(all, mark{CodePartFailed, p.Part, p.Workload, p.Reason})
		case p.Outcome == bench.Unsupported:
			all = append(all, mark{CodePartly, p.Part, "", p.Reason})
		case p.Apart != nil:
			apart = append(apart, p.Part)
			with = addOnce(with, strings.Join(p.Apart.With, ", "))
			usual = addOnce(usual, strings.Join(p.Apart.Usual, ", "))
		}
	}
	if apart == nil {
		return all
	}
	why := fmt.Sprintf("in containers for %s, usually for %s", strings.Join(with, "; "), strings.Join(usual, "; "))
	return append(all, mark{CodePartApart, strings.Join(apart, ", "), "", why})
}

func addOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// partsTogether makes one mark of the parts of a workload that failed in the same cells
// for the same reason. Cells are by mark.
func partsTogether(cells map[mark][]int) map[mark][]int {
	out := make(map[mark][]int)
	first := make(map[string]mark) // the mark so far, by what is the same
	for _, m := range slices.SortedFunc(maps.Keys(cells), mark.compare) {
		in := cells[m]
		if m.workload != "" {
			same := fmt.Sprint(m.workload, in, m.withoutDigits().why)
			if before, ok := first[same]; ok {
				delete(out, before)
				m.part, m.why = before.part+", "+m.part, before.why
			}
			first[same] = m
		}
		out[m] = in
	}
	return out
}

// partWords tell of parts of a survey in trials of some cells.
func (m mark) partWords(cells string) (text, hint string) {
	switch m.code {
	case CodePartly:
		what := cells + " cannot do all that was asked, and what is missing there has no value: " + m.part + ": " + m.why
		return strings.TrimSuffix(what, ": "),
			"do without it, or change what it wants; an option of a part has the part's name before it"
	case CodePartApart:
		return fmt.Sprintf("parts of %s ran in another container than usual after a failure, "+
				"and have no value where they did: %s %s", cells, m.part, m.why),
			"what else its container does is part of what is measured: mend what failed"
	default:
		what := fmt.Sprintf("part %s of %s failed, and has no value where it did", m.part, cells)
		if strings.Contains(m.part, ", ") {
			what = fmt.Sprintf("parts %s of %s failed, and have no value where they did", m.part, cells)
		}
		return fmt.Sprintf("%s, though other parts were measured all the same: %s", what, m.why),
			fmt.Sprintf("mend what the reason names; 'tare run %s' by itself shows more", cmp.Or(m.workload, m.part))
	}
}
