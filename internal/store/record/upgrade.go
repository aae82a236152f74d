package record

import (
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// The codes of notes in which older versions stored the outcome of a part of a survey. The notes
// have these forms, with the part's workload only if its name differs from the part's:
//
//	partly: PART: REASON
//	part-failed: PART (WORKLOAD): REASON
//	part-apart: PART, PART: in containers for PART; PART, usually for PART, PART
const (
	notePartly     = "partly"
	notePartFailed = "part-failed"
	notePartApart  = "part-apart"
)

// Upgrade converts a sample to the present form, and finds out by its notes whether it was traced. Older versions
// stored as sentences in Notes what now is in Parts. Only this function knows these sentences.
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
	s.Trial.Traced = slices.Contains(notes, bench.NoteTraced)
}

// partsIn are the parts that a note describes; none for any other note.
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

// partsApart reads which parts ran in the containers of others.
func partsApart(names []string, where string) (all []bench.PartOutcome) {
	now, usual, _ := strings.Cut(strings.TrimPrefix(where, "in containers for "), ", usually for ")
	for _, name := range names {
		apart := &bench.Regrouping{With: containerOf(name, now), Usual: containerOf(name, usual)}
		if apart.With == nil || apart.Usual == nil {
			return nil // not a note that tare wrote
		}
		all = append(all, bench.PartOutcome{Part: name, Outcome: bench.OK, Regrouped: apart})
	}
	return all
}

// containerOf finds the parts that share a part's container, in a list such as "a, b; c".
func containerOf(part, containers string) []string {
	for one := range strings.SplitSeq(containers, "; ") {
		if names := strings.Split(one, ", "); slices.Contains(names, part) {
			return names
		}
	}
	return nil
}
