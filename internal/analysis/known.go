package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// known tells which parts of a survey were measured in the first blocks only.
func (w *warner) known() {
	var parts []string
	blocks := make(map[string]int) // before a part was left out the first time
	for i := range w.table.run.Samples {
		s := &w.table.run.Samples[i]
		if s.Trial.Warmup() {
			continue
		}
		for _, note := range s.Notes {
			part, ok := leftOut(note)
			if _, seen := blocks[part]; ok && !seen {
				parts = append(parts, part)
				blocks[part], _ = slices.BinarySearch(w.table.blocks, s.Trial.Block)
			}
		}
	}
	if len(parts) == 0 {
		return
	}
	for i, part := range parts {
		parts[i] = fmt.Sprintf("%s (%d)", part, blocks[part])
	}
	w.add(CodeKnown, fmt.Sprintf("measured only until known more precisely than was asked, in so many blocks: %s; the time went to the rest",
		strings.Join(parts, ", ")), "for more blocks of them, ask for a smaller --precision", "")
}

// lacks reports whether a part of a survey was left out of a trial, since enough is
// known of it.
func lacks(s *bench.Sample) bool {
	return slices.ContainsFunc(s.Notes, func(note string) bool { _, ok := leftOut(note); return ok })
}

// leftOut is the part that a note says was not measured, since enough is known of it.
func leftOut(note string) (part string, ok bool) {
	return strings.CutPrefix(note, bench.NoteKnown+": ")
}
