// Package figure draws what a report says, as SVG: single values, changes with their
// intervals, drift, conditions, percentiles, curves and timelines. The same report gives the same
// bytes. It needs no script, no font and no network, and it computes no statistics.
//
// A figure is one or more panels, each an SVG element of its own that is as wide as a
// phone. A page puts them side by side where there is room.
package figure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/report"
)

// A Figure is a picture with what it shows in words.
type Figure struct {
	Name    string // unique in a report, such as "total" or "total-drift"
	Kind    Kind
	Metric  string // the primary metric that it is of; empty for single operations
	Title   string
	Finding string // in a sentence
	Reading string // what its lines and marks are; empty where the finding says it
	Panels  []Panel
	Thinned string        // what alone is drawn, and where the rest is; empty where all is drawn
	Numbers *report.Table // what it shows; nil where the metric's own table has it
}

// A Kind says what a figure shows.
type Kind string

// The kinds of figures.
const (
	Estimation  Kind = "estimation"  // every value, and the changes
	Drift       Kind = "drift"       // block by block
	Levels      Kind = "levels"      // by the level of a condition
	Percentiles Kind = "percentiles" // of single operations
	Sequence    Kind = "sequence"    // single operations one after the other
	Waterfall   Kind = "timeline"    // process by process
)

// A Panel is one SVG element.
type Panel struct {
	Title         string // what it shows
	Finding       string // what can be seen in it, for readers who cannot
	Width, Height float64
	body          string
}

// Sizes of a panel and its texts, in units of the picture: pixels at its natural size.
const (
	width  = 360
	margin = 12
	normal = 12 // size of a text
	small  = 11
)

// MaxCells is how many cells a figure has at most, and maxPoints how many values of one cell it
// draws: more are thinned evenly.
const (
	MaxCells  = 60
	maxPoints = 400
)

// SVG is the panel as an element. id must be unique in the page.
func (p *Panel) SVG(id string) string { return p.svg(id, "", "") }

func (p *Panel) svg(id, place, style string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" %sviewBox="0 0 %s %s" width="%s" height="%s" role="img" `+
		`aria-labelledby="%s-t %s-d" font-family="system-ui, sans-serif">`+
		`<title id="%s-t">%s</title><desc id="%s-d">%s</desc>%s%s</svg>`,
		place, px(p.Width), px(p.Height), px(p.Width), px(p.Height), id, id, id, escape(p.Title), id, escape(p.Finding),
		style, p.body)
}

// Caption is everything that is said below a figure.
func (f *Figure) Caption() string {
	said := slices.DeleteFunc([]string{f.Finding, f.Reading, f.Thinned}, func(s string) bool { return s == "" })
	return strings.Join(said, " ")
}

// SVG is the whole figure as a file: its panels side by side, two in a row.
func (f *Figure) SVG() string {
	columns := min(2, len(f.Panels))
	var inner strings.Builder
	y := 26.0
	for i := 0; i < len(f.Panels); i += columns {
		height := 0.0
		for k, p := range f.Panels[i:min(i+columns, len(f.Panels))] {
			inner.WriteString(p.svg(fmt.Sprintf("p%d", i+k), fmt.Sprintf(`x="%d" y="%s" `, k*width, px(y)), ""))
			height = max(height, p.Height)
		}
		y += height
	}
	whole := Panel{Title: f.Title, Finding: f.Caption(), Width: float64(max(columns, 1) * width), Height: y}
	var c canvas
	c.rect(0, 0, whole.Width, whole.Height, paper)
	c.text(margin, 17, left, words, 14, f.Title)
	whole.body = c.String() + inner.String()
	return whole.svg("f", "", "<style>"+Style()+"</style>") + "\n"
}

// Style is the style sheet of all figures: colours for dark surroundings.
func Style() string {
	var b strings.Builder
	all := []ink{faint, zone, frame, muted, none, good, bad, unsure, words, paper}
	for n := range lineColors {
		all = append(all, lineInk(n))
	}
	b.WriteString("@media (prefers-color-scheme:dark){")
	for _, i := range all {
		fmt.Fprintf(&b, "svg .%s{stroke:%s}svg .fill.%s{fill:%s;stroke:none}", i, i.dark(), i, i.dark())
	}
	b.WriteString("svg path.fill{fill-opacity:.25}}")
	return b.String()
}

// dark is the colour on a dark surface.
func (i ink) dark() string {
	switch i {
	case paper:
		return "#14171a"
	case faint:
		return "#2b3138"
	case zone:
		return "#203040"
	case frame, muted:
		return "#a3adb8"
	case good:
		return "#4fd1a5"
	case bad:
		return "#ff9270"
	case unsure:
		return "#e3b341"
	}
	for n, c := range [...]string{"#e6edf3", "#5eb0ef", "#ffa657", "#4fd1a5", "#e08fc0", "#d9c24a", "#8fc7ee", "#a3adb8"} {
		if i == lineInk(n) {
			return c
		}
	}
	return "#e6edf3"
}

// All draws every figure of a report, in the order in which a page shows them.
func All(d *report.Document) (all []Figure) {
	for i := range d.Metrics {
		m := &d.Metrics[i]
		if !drawn(m) {
			continue
		}
		all = append(all, estimation(m)...)
		if d.Kind == report.OneRun {
			all = append(all, drift(d, m)...)
			all = append(all, levels(m)...)
		}
	}
	all = append(append(append(all, waterfalls(d)...), spectra(d)...), curves(d)...)
	seen := map[string]int{}
	for i := range all {
		if seen[all[i].Name]++; seen[all[i].Name] > 1 { // characters that no name keeps made them the same
			all[i].Name = fmt.Sprintf("%s-%d", all[i].Name, seen[all[i].Name])
		}
	}
	return all
}

// drawn reports whether a metric has single values.
func drawn(m *report.Metric) bool {
	for _, c := range m.Conditions {
		for _, r := range c.Rows {
			if len(r.Values) > 0 && r.N > 0 {
				return true
			}
		}
	}
	return false
}

// Bar draws the interval of one row of a table; all rows of the table have one axis.
func Bar(b *report.Bar, t report.Tone) string {
	const w, h = 144, 18
	var c canvas
	c.line(b.One*w, 0, b.One*w, h, none, 1)
	i := map[report.Tone]ink{report.Good: good, report.Bad: bad, report.Uncertain: unsure}[t]
	if i == "" {
		i = words
	}
	if b.High > b.Low {
		c.line(b.Low*w, h/2, b.High*w, h/2, i, 2.5)
	}
	c.dot(min(max(b.At*w, 4), w-4), h/2, 4, i)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`aria-hidden="true">%s</svg>`,
		w, h, w, h, c.String())
}

// named joins the parts of a figure's name, and keeps it fit for a file and an anchor.
func named(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	safe := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '=':
			return r
		default:
			return '-'
		}
	}
	return strings.Map(safe, strings.Join(kept, "-"))
}
