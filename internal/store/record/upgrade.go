package record

import (
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// The codes of notes by which older versions told what became of a part of a survey.
// The words were, each with the part's workload only where that has another name:
//
//	partly: PART: REASON
//	part-failed: PART (WORKLOAD): REASON
//	part-apart: PART, PART: in containers for PART; PART, usually for PART, PART
const (
	notePartly     = "partly"
	notePartFailed = "part-failed"
	notePartApart  = "part-apart"
)

// Upgrade gives a sample that was read the form of today. Older versions told in
// sentences among the notes what Parts are for. It is the one place that knows them.
func Upgrade(s *bench.Sample) {
	var notes []string
	for _, note := range s.Notes {
		parts := partsIn(note)
		if parts == nil {
			notes = append(notes, note)
		}
		s.Parts = append(s.Parts, parts...)
	}
	s.Notes = notes
}

// partsIn are those that a note tells of; none of any other note.
func partsIn(note string) []bench.PartOutcome {
	code, rest, _ := strings.Cut(note, ": ")
	name, why, _ := strings.Cut(rest, ": ")
	switch {
	case name == "":
		return nil
	case code == notePartly:
		return []bench.PartOutcome{{Part: name, Outcome: bench.Unsupported, Reason: why}}
	case code == notePartFailed:
		p := bench.PartOutcome{Part: name, Outcome: bench.Failed, Reason: why}
		if part, workload, named := strings.Cut(strings.TrimSuffix(name, ")"), " ("); named && part != "" {
			p.Part, p.Workload = part, workload
		}
		return []bench.PartOutcome{p}
	case code == notePartApart:
		return partsApart(strings.Split(name, ", "), why)
	}
	return nil
}

// partsApart reads which parts were in the containers of some.
func partsApart(names []string, where string) (all []bench.PartOutcome) {
	now, usual, _ := strings.Cut(strings.TrimPrefix(where, "in containers for "), ", usually for ")
	for _, name := range names {
		apart := &bench.Apart{With: containerOf(name, now), Usual: containerOf(name, usual)}
		if apart.With == nil || apart.Usual == nil {
			return nil // these are not our words
		}
		all = append(all, bench.PartOutcome{Part: name, Outcome: bench.OK, Apart: apart})
	}
	return all
}

// containerOf finds the parts with which one is, in containers such as "a, b; c".
func containerOf(part, containers string) []string {
	for one := range strings.SplitSeq(containers, "; ") {
		if names := strings.Split(one, ", "); slices.Contains(names, part) {
			return names
		}
	}
	return nil
}
