package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/unit"
)

// partMarks returns the marks of a survey's parts in one trial. All parts that ran
// apart share one mark.
func partMarks(parts []bench.PartOutcome) (all []mark) {
	var apart, with, usual []string
	for _, p := range parts {
		switch {
		case p.Outcome == bench.Failed:
			all = append(all, mark{CodePartFailed, p.Part, p.Workload, p.Reason})
		case p.Outcome == bench.Unsupported:
			all = append(all, mark{CodePartly, p.Part, "", p.Reason})
		case p.Regrouped != nil:
			apart = append(apart, p.Part)
			with = appendUnique(with, strings.Join(p.Regrouped.With, ", "))
			usual = appendUnique(usual, strings.Join(p.Regrouped.Usual, ", "))
		}
	}
	if apart == nil {
		return all
	}
	why := fmt.Sprintf("in containers for %s, usually for %s", strings.Join(with, "; "), strings.Join(usual, "; "))
	return append(all, mark{CodePartApart, strings.Join(apart, ", "), "", why})
}

func appendUnique(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// mergeParts joins the marks of parts that failed, or are not supported, in the same cells for the
// same reason: mostly, they share a container.
func mergeParts(cells map[mark][]int) map[mark][]int {
	out := make(map[mark][]int)
	first := make(map[string]mark) // the joined mark so far, by code, cells and reason
	for _, m := range slices.SortedFunc(maps.Keys(cells), mark.compare) {
		in := cells[m]
		if m.code == CodePartFailed || m.code == CodePartly {
			same := fmt.Sprint(m.code, in, m.alike().reason)
			if before, ok := first[same]; ok {
				delete(out, before)
				m = mark{m.code, before.part + ", " + m.part, cmp.Or(before.workload, before.part), before.reason}
			}
			first[same] = m
		}
		out[m] = in
	}
	return out
}

// partFailures says in how many trials of some cells parts failed, of those that succeeded otherwise. Of parts
// that failed together, as one container's do, it counts the one that failed most often.
func (w *warner) partFailures(parts string, cells []int) string {
	most, successes := 0, w.successes()
	for part := range strings.SplitSeq(parts, ", ") {
		n := 0
		for _, f := range w.Failures {
			if f.Part == part && slices.Contains(cells, f.Cell) {
				n += f.Count - f.Warmup
			}
		}
		most = max(most, n)
	}
	of := 0
	for _, c := range cells {
		of += successes[c]
	}
	return fmt.Sprintf("%d of %s", most, unit.FormatCount(of, "trial"))
}

// partWords returns the text and the advice of a mark about parts of a survey; trials says in how many of them a
// part failed.
func (m mark) partWords(cells, trials string) (text, hint string) {
	several := strings.Contains(m.part, ", ")
	reason := bench.BriefReason(m.reason)
	switch m.code {
	case CodePartly:
		what, hint := "part "+m.part+" is not supported by "+cells+" and has no value there: ",
			"leave the part out, or change its options, whose names begin with the part's name"
		if several {
			what, hint = "parts "+m.part+" are not supported by "+cells+" and have no value there: ",
				"leave the parts out, or change their options, whose names begin with the part's name"
		}
		return strings.TrimSuffix(what+reason, ": "), hint
	case CodePartApart:
		return fmt.Sprintf("after a failure, parts of %s ran in another container than usual, "+
				"and have no value in those trials: %s %s", cells, m.part, reason),
			"a part's values depend on what else its container does: fix the failure"
	default:
		what := fmt.Sprintf("part %s failed in %s of %s and has no value there", m.part, trials, cells)
		if several {
			what = fmt.Sprintf("parts %s failed in %s of %s and have no value there", m.part, trials, cells)
		}
		return fmt.Sprintf("%s; the other parts were measured: %s", what, reason),
			fmt.Sprintf("fix the cause; 'tare run %s' by itself shows more", cmp.Or(m.workload, m.part))
	}
}
