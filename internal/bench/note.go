package bench

import "slices"

// A Note qualifies the values of samples that are marked with its code, in the words
// of the warning that the report gives.
type Note struct {
	Code string // stable; samples keep it
	// Text says what is wrong, and Advice what to do about it. {cells} in Text stands
	// for the names of the cells with marked trials.
	Text, Advice string
	Metric       string // the metric that it limits; empty = all
	// Doubt says in a few words why comparisons tell less than they seem to, and makes trust in the run medium; empty
	// = they do not.
	Doubt string

	// AllParts says that it matters to a survey only if all measured parts of the
	// workload have it.
	AllParts bool
	// Choice names what the workload chose, if the note tells of a free choice, such as
	// between two I/O methods. If cells got different ones, the report gives the warning
	// Ways, which all notes of one choice share: {ways} in its Text stands for the list
	// of ways, each with its cells.
	Choice       string
	MixedChoices *Note
}

// A Noter is a Workload that has notes of its own.
type Noter interface {
	// Notes lists every note that Run may attach, without those of the function Notes.
	Notes() []Note
}

// The notes that belong to no workload.
const (
	// NoteHostClock marks a sample whose process inside does not share the host's
	// clock, so that times from the host replace its own marks.
	NoteHostClock = "host-clock"
	// NoteDamaged marks the replacement for a sample that a store cannot read any
	// more. Nothing in it was measured.
	NoteDamaged = "damaged"
	// NoteSeriesLeftOut marks a sample that had too many values of single operations
	// to keep. Its Values cover all operations.
	NoteSeriesLeftOut = "series-left-out"
	// NoteTraced marks the sample of a traced trial: see Trial.Traced. It qualifies no value, because
	// such a sample has none.
	NoteTraced = "traced"
	// NoteWhole marks a sample of a trial that ran whole, though the plan has its cell take turns.
	NoteWhole = "whole-trial"
	// NotePeriodicLimit marks a sample of a cell whose containers have a limit that works in periods,
	// though the plan does not say so. It is why the trials of its condition ran whole.
	NotePeriodicLimit = "periodic-limit"
)

// Notes lists the notes that belong to no workload.
func Notes() []Note {
	return []Note{
		{
			Code:   NoteHostClock,
			Text:   "processes in {cells} do not share the host's clock, so times were measured from outside",
			Advice: "these times include the call to the engine; compare them only with cells that are marked too",
		},
		{
			Code:   NoteWhole,
			Text:   "trials of {cells} could not be given turns and ran whole, so their differences have more noise",
			Advice: "a limit that works in periods prevents turns, and so does a sandbox; with others, run tare as root",
		},
		{
			Code: NotePeriodicLimit,
			Text: "containers of {cells} have a limit that works in periods, such as a CPU quota, " +
				"though the plan asks for none: so their trials and those that are compared with them ran whole",
			Advice: "the engine or somebody else has set it on a control group or a network interface: " +
				"look at cpu.max and io.max (version 1: cpu.cfs_quota_us and blkio.throttle.*) and at tc qdisc",
		},
		{
			Code: NoteDamaged,
			Text: "stored trials of {cells} are damaged and cannot be read: " +
				"they count as failed, and no number includes them",
			Advice: "'tare check' names them; restore an older copy of the store if you have one",
		},
		{
			Code:   NoteSeriesLeftOut,
			Text:   "trials of {cells} had too many operations to store each single value",
			Advice: "the numbers shown include all operations; only single values are missing from the store",
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
