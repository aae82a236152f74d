package report

import (
	"strings"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// writtenParts says what a run is called and which labels it has; nothing where it has neither.
func writtenParts(r *Run) []string {
	var parts []string
	if r.Name != "" {
		parts = append(parts, "called "+plain.Line(r.Name))
	}
	for _, l := range r.Labels {
		parts = append(parts, plain.Line(l.Key+"="+l.Value))
	}
	return parts
}

// writtenLines are the notes on a run, each with its day and minute in UTC.
func writtenLines(r *Run) (lines []Line) {
	for _, n := range r.Notes {
		text := plain.Line(strings.Join(strings.Fields(n.Text), " "))
		lines = append(lines, Line{Name: n.Time.UTC().Format("2006-01-02 15:04"), Text: []string{text}})
	}
	return lines
}

// The values of Stopped of a run without an end: it was left, or it is under way.
const (
	stoppedIncomplete = "incomplete"
	StillRunning      = "running"
)

// say has a run say that it is under way.
func (r *Run) say(running bool) {
	if running {
		r.Stopped = StillRunning
	}
}

// extensible reports whether blocks can be added here to a run that has ended.
func (r *Run) extensible() bool {
	return !r.imported && r.Stopped != stoppedIncomplete && r.Stopped != StillRunning
}

// newNotes is never nil.
func newNotes(all []bench.Remark) []bench.Remark { return append([]bench.Remark{}, all...) }

// headingsRoom bounds the labels of all groups in the headings of columns, in characters, and leastHeading
// is how much of each there is room for in any case.
const (
	headingsRoom = 60
	leastHeading = 16
)

// called is what users call a group: the value of a label, or the name of its only run; empty
// where they have not called it anything.
func (g *Group) called(first *Run) string {
	switch {
	case g.Name != first.ID && (first.Host.Hostname == "" || !strings.HasPrefix(g.Name, first.Host.Hostname)):
		return plain.Line(g.Name)
	case len(g.Runs) == 1:
		return plain.Line(first.Name)
	}
	return ""
}

// letter is a group's letter, and what users call it.
func (g *Group) letter(letter string, first *Run) string {
	if called := g.called(first); called != "" {
		letter += " (" + called + ")"
	}
	return letter
}

// headings are what the groups of a comparison are called in tables: a letter, and the label
// that they have. Above the values of the only machine of a system stands that machine, too: they are not those
// of the system.
func (d *Document) headings() (all []string) {
	run, most := 0, max(leastHeading, headingsRoom/len(d.Groups))
	for i := range d.Groups {
		name, host := groupLetter(i), &d.Runs[run].Host
		text := d.Groups[i].called(&d.Runs[run])
		if d.Unit != string(analysis.UnitHost) && d.Groups[i].Name == host.OS && host.Hostname != "" {
			text = plain.Line(host.Hostname) + ", " + text
		}
		if called := []rune(text); len(called) > most {
			name += " (" + string(called[:most-1]) + "…)"
		} else if len(called) > 0 {
			name += " (" + string(called) + ")"
		}
		all = append(all, name)
		run += len(d.Groups[i].Runs)
	}
	return all
}
