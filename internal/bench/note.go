package bench

import "slices"

// A Note is a mark on samples that qualifies their values, in the words in which a
// report warns of it.
type Note struct {
	Code string // stable; samples keep it
	// Text says what is the matter, and Advice what to do about it. {cells} in Text
	// stands for the names of the cells of which trials are marked.
	Text, Advice string
	Metric       string // that it limits; empty = all

	// Throughout says that it matters to a survey only where all parts of the
	// workload that were measured have it.
	Throughout bool
	// Way is the name of what was chosen, where the workload was free to choose and
	// the note tells how it did. Where cells got different ones, the report gives the
	// warning Ways, which all notes of the same choice have: {ways} in its Text stands
	// for who got which.
	Way  string
	Ways *Note
}

// A Noter is a Workload that has notes of its own.
type Noter interface {
	// Notes lists every note that Run may attach, but for those of Notes.
	Notes() []Note
}

// The notes that belong to no workload.
const (
	// NoteHostClock marks a sample in which the process inside does not share
	// the host's clock, so that host-side times were used instead of its own marks.
	NoteHostClock = "host-clock"
	// NoteDamaged marks what a store gives in the place of a sample that it cannot
	// read any more. Nothing in it was measured.
	NoteDamaged = "damaged"
	// NoteSeriesLeftOut marks a sample with more values of single operations than
	// are kept. Its Values are those of all operations.
	NoteSeriesLeftOut = "series-left-out"
)

// Notes lists the notes that belong to no workload.
func Notes() []Note {
	return []Note{
		{
			Code:   NoteHostClock,
			Text:   "inside {cells} the clock is another one, so times were taken from outside",
			Advice: "they include the way to the engine and back; compare them with cells that are marked too",
		},
		{
			Code: NoteDamaged,
			Text: "trials of {cells} cannot be read any more, because what was stored of them is damaged: " +
				"they count as failed, and are in no number",
			Advice: "'tare check' names them; if there is a copy of the store from before, take that",
		},
		{
			Code:   NoteSeriesLeftOut,
			Text:   "trials of {cells} had too many single values to keep them all",
			Advice: "the numbers shown are made of all; only single values are missing from what is stored",
		},
	}
}

// NotesOf lists the notes that samples of some workloads may have, each once.
func NotesOf(workloads ...Workload) []Note {
	all := Notes()
	for _, w := range workloads {
		noter, ok := w.(Noter)
		if !ok {
			continue
		}
		for _, n := range noter.Notes() {
			if !slices.ContainsFunc(all, func(o Note) bool { return o.Code == n.Code }) {
				all = append(all, n)
			}
		}
	}
	return all
}
