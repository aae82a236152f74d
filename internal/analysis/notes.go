package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// notes turns what trials were marked with into warnings: one for the cells that were
// marked for the same reason.
func (w *warner) notes() {
	first := make(map[string]string) // by what is the same
	cells := make(map[string][]int)  // by the first
	seen := make(map[mark]bool)
	for i := range w.table.run.Samples {
		s := &w.table.run.Samples[i]
		if s.Trial.Warmup() {
			continue
		}
		for _, note := range s.Notes {
			m := mark{kindOfNote(note), s.Trial.Cell}
			if seen[m] {
				continue
			}
			seen[m] = true
			same := withoutDigits(note)
			if _, ok := first[same]; !ok {
				first[same] = note
			}
			cells[first[same]] = append(cells[first[same]], s.Trial.Cell)
		}
	}
	cells = partsTogether(cells)
	for _, note := range slices.Sorted(maps.Keys(cells)) {
		code, _, _ := strings.Cut(note, ": ")
		text, hint := noteText(note, w.names(w.withoutControls(cells[note])))
		w.add(code, text, hint, noteMetric(code), cells[note]...)
	}
	w.ways(cells)
}

// partsTogether makes one note of the parts of a workload that failed in the same cells
// for the same reason.
func partsTogether(cells map[string][]int) map[string][]int {
	out := make(map[string][]int)
	first := make(map[string]string) // the note so far, by what is the same
	for _, note := range slices.Sorted(maps.Keys(cells)) {
		in := cells[note]
		part, workload, why, ok := failedPart(note)
		same := fmt.Sprint(workload, in, digits.ReplaceAllLiteralString(why, "0"))
		if before, _, reason, _ := failedPart(first[same]); ok && first[same] != "" {
			delete(out, first[same])
			part, why = before+", "+part, reason
			note = fmt.Sprintf("%s: %s (%s): %s", bench.NotePartFailed, part, workload, why)
		}
		if ok {
			first[same] = note
		}
		out[note] = in
	}
	return out
}

// failedPart takes a note "part-failed: PART (WORKLOAD): WHY" apart.
func failedPart(note string) (part, workload, why string, ok bool) {
	rest, ok := strings.CutPrefix(note, bench.NotePartFailed+": ")
	name, why, _ := strings.Cut(rest, ": ")
	part, workload, named := strings.Cut(strings.TrimSuffix(name, ")"), " (")
	return part, workload, why, ok && named
}

// A mark is one of the trials of a cell.
type mark struct {
	kind string
	cell int
}

// kindOfNote is a note without the reason that follows a part of a survey: it may be
// worded anew in each trial, and is told once.
func kindOfNote(note string) string {
	kind, rest, _ := strings.Cut(note, ": ")
	part, _, _ := strings.Cut(rest, ": ")
	return kind + ": " + part
}

// withoutDigits is a note but for the times, ports and names of files that make one
// reason different in each cell. A code has none of these.
func withoutDigits(note string) string {
	code, why, found := strings.Cut(note, ": ")
	if !found {
		return code
	}
	return code + ": " + digits.ReplaceAllLiteralString(why, "0")
}

var digits = regexp.MustCompile(`[0-9]+`)

// noteMetric is the metric that a mark of trials is about; empty = all.
func noteMetric(code string) string {
	if code == bench.NoteClientBound {
		return bench.ClientBoundMetric
	}
	return ""
}

// noteText puts a mark of trials of some cells into words.
func noteText(note, cells string) (text, hint string) {
	code, why, _ := strings.Cut(note, ": ")
	switch code {
	case bench.NoteHostClock:
		return "inside " + cells + " the clock is another one, so times were taken from outside",
			"they include the way to the engine and back; compare them with cells that are marked too"
	case bench.NoteLostContainers:
		return "some containers of " + cells + " failed: they are counted, and their times are in no number",
			"see why: take fewer at once, or run the same operations with workload lifecycle, which says what failed"
	case bench.NoteEndedEarly:
		return "the process in some containers of " + cells + " had ended before stop or kill came: there was nothing to end, and it has no time",
			"give it a program that runs until it is ended, or write wait in place of stop and kill"
	case bench.NotePartly:
		return strings.TrimSuffix(cells+" cannot do all that was asked, and what is missing there has no value: "+why, ": "),
			"do without it, or change what it wants; an option of a part has the part's name before it"
	case bench.NoteDamaged:
		return "trials of " + cells + " cannot be read any more, because what was stored of them is damaged: they count as failed, and are in no number",
			"'tare check' names them; if there is a copy of the store from before, take that"
	case bench.NotePartFailed:
		part, workload, why, _ := failedPart(note)
		what := fmt.Sprintf("part %s of %s failed, and has no value where it did", part, cells)
		if strings.Contains(part, ", ") {
			what = fmt.Sprintf("parts %s of %s failed, and have no value where they did", part, cells)
		}
		return fmt.Sprintf("%s, though other parts were measured all the same: %s", what, why),
			fmt.Sprintf("mend what the reason names; 'tare run %s' by itself shows more", cmp.Or(workload, part))
	case bench.NotePartApart:
		parts, why, _ := strings.Cut(why, ": ")
		return fmt.Sprintf("parts of %s ran in another container than usual after a failure, and have no value where they did: "+
				"%s %s", cells, parts, why),
			"what else its container does is part of what is measured: mend what failed"
	case bench.NoteSameCPU:
		return "client and server of " + cells + " had to share a CPU",
			"their work is in one another's times: give tare and its containers two CPUs at least, and take an engine that keeps containers to some (cpuset)"
	case bench.NoteClientBound:
		return "the client was the bottleneck in " + cells + ": it used all of its CPU time, and the server did not",
			"the container can do more than is shown: the numbers are those of the client, and more streams may help where there are more CPUs"
	case bench.NoteLoadBound:
		return "the client was the bottleneck in " + cells + ": it used all of its CPU time, and the server did not",
			"the server can do more than is shown: give the client more CPUs, or compare at a rate that it can keep (option rate)"
	case bench.NoteClosedLoop:
		return "the client of " + cells + " waited for each answer before it sent the next request (closed loop): while a server stalls nothing is sent, so that a stall is in few of the times",
			"to see what those would wait who came meanwhile, send at a rate (option rate)"
	case bench.NoteRateMissed:
		return "in " + cells + " more than 1 % of the requests that were due had no good answer before the end of the time",
			"the server, or the client, cannot keep this rate: the times say how long a queue became, and not how quick the server is"
	case bench.NoteFailedRequests:
		return "requests of " + cells + " failed: they are counted, and are in no time and no rate",
			"see http.failed and the kinds below it"
	case bench.NoteNoKnee:
		return "at every rate that was tried, some datagrams of " + cells + " were lost: no rate is known to be without loss",
			"give each trial more time, or send fewer at once: --param time=5s"
	case bench.NoteFull:
		return cells + " was filled until a container could not be started, or ended by itself", "the number of containers is a result here"
	case bench.NoteSeriesLeftOut:
		return "trials of " + cells + " had too many single values to keep them all", "the numbers shown are made of all; only single values are missing from what is stored"
	case bench.NoteIOUring, bench.NoteIOLibaio, bench.NoteIOThreads:
		return cells + " handed requests to the kernel with " + wayName(code) + ", the first way that was allowed", "name it to be sure of it: --param io=" + wayName(code)
	case bench.NoteNotADisk:
		return "the data of " + cells + " was in memory (tmpfs) and not on a disk", "for a disk take another storage, or name a directory on one with `data`"
	case bench.NoteBufferedIO:
		return "the file system under " + cells + " cannot do direct I/O: requests went through the page cache",
			"compare with cells that are marked too, or have all use the page cache: --param direct=no"
	default:
		return "trials of " + cells + " are marked " + code, "see what the workload says about this mark"
	}
}
