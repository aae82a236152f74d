package analysis

import (
	"cmp"
	"maps"
	"regexp"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// notes turns what trials were marked with, and what became of parts of a survey, into
// warnings: one for the cells of which the same is to be told.
func (w *warner) notes() {
	first := make(map[mark]mark)  // by what is the same
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
		for _, m := range marksOf(s) {
			one := told{m.kind(), s.Trial.Cell}
			if seen[one] {
				continue
			}
			seen[one] = true
			same := m.withoutDigits()
			if _, ok := first[same]; !ok {
				first[same] = m
			}
			cells[first[same]] = append(cells[first[same]], s.Trial.Cell)
		}
	}
	cells = partsTogether(cells)
	for _, m := range slices.SortedFunc(maps.Keys(cells), mark.compare) {
		names := w.names(w.withoutControls(cells[m]))
		text, hint := m.words(names)
		w.add(m.code, text, hint, noteMetric(m.code), cells[m]...)
	}
	w.ways(cells)
}

// A mark is one thing to tell of trials.
type mark struct {
	code     string // of a note, or of what became of a part
	part     string // of a survey, or several, with commas between; empty for a note
	workload string // of the part, where that has another name
	why      string
}

// marksOf lists what is to be told of one trial.
func marksOf(s *bench.Sample) (all []mark) {
	for _, note := range s.Notes {
		all = append(all, mark{code: note})
	}
	return append(all, partMarks(s.Parts)...)
}

// kind is the mark without its reason, which may be worded anew in each trial and is
// told once.
func (m mark) kind() mark {
	m.why = ""
	return m
}

// withoutDigits is the mark but for the times, ports and names of files that make one
// reason different in each cell.
func (m mark) withoutDigits() mark {
	m.why = digits.ReplaceAllLiteralString(m.why, "0")
	return m
}

var digits = regexp.MustCompile(`[0-9]+`)

// compare orders marks by code.
func (m mark) compare(o mark) int {
	return cmp.Or(cmp.Compare(m.code, o.code), cmp.Compare(m.part, o.part), cmp.Compare(m.workload, o.workload), cmp.Compare(m.why, o.why))
}

// noteMetric is the metric that a mark of trials is about; empty = all.
func noteMetric(code string) string {
	if code == bench.NoteClientBound {
		return bench.ClientBoundMetric
	}
	return ""
}

// words tell of trials of some cells.
func (m mark) words(cells string) (text, hint string) {
	if m.part != "" {
		return m.partWords(cells)
	}
	return noteText(m.code, cells)
}

// noteText puts a note into words.
func noteText(code, cells string) (text, hint string) {
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
	case bench.NoteDamaged:
		return "trials of " + cells + " cannot be read any more, because what was stored of them is damaged: they count as failed, and are in no number",
			"'tare check' names them; if there is a copy of the store from before, take that"
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
