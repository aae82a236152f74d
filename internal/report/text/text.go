// Package text renders a report for a terminal. It cuts nothing off: what does not
// fit continues on the next line.
package text

import (
	"bufio"
	"io"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
)

// Options say what the terminal can do. The zero value is 80 columns without colour.
type Options struct {
	Color bool // ANSI colours
	Width int  // columns; 0 = 80, and never fewer than 40
	// All shows everything that is known, not only what people read first.
	All bool
}

const (
	defaultWidth = 80
	minWidth     = 40
	barMinWidth  = 100 // columns from which on bars are drawn
	indent       = "  "
)

// Write renders a report.
func Write(w io.Writer, d *report.Document, opt Options) error {
	p := newPrinter(w, opt)
	if !opt.All {
		p.screen(d)
		if len(d.Next) == 0 && len(d.Trailer) > 0 { // else it is one more of the last lines
			p.line("")
		}
		p.trailer(d.Trailer)
		return p.Flush()
	}
	p.head(d.Head)
	for _, t := range d.Tables {
		p.table(&t)
	}
	p.lines("in words", d.View.Answers)
	p.lines("by how much in the metric's unit, from pairs within a block [95 % interval]", d.View.Shifts)
	if d.Legend != "" {
		p.line("")
		p.wrap(indent, indent, d.Legend, dim)
	}
	for _, t := range d.DetailTables {
		p.table(&t)
	}
	for _, t := range d.View.Percentiles {
		p.table(&t)
	}
	for _, t := range d.View.Timelines {
		p.rows(&t)
	}
	p.lines("also different (correlation, not cause)", d.View.Reasons)
	p.lines("network and storage paths, as the kernel sees them", d.View.DataPaths)
	p.lines("what the engines applied, as read back from them", d.View.Applied)
	p.lines("noise where cells took turns (one standard deviation)", d.View.Levels)
	p.lines("turns of a trial, and what they cost", d.View.Turns)
	p.lines("machine and engines", d.View.Machine)
	p.lines("not supported", d.View.Absent)
	p.lines("failures (excluded from all numbers above)", d.View.Failures)
	p.lines("ended early by the user (excluded from all numbers above)", d.View.Canceled)
	p.lines("notes on this run", d.View.Written)
	p.line("")
	p.wrap("", indent, d.Screen.Trust, trustStyle(d.Trust))
	p.notes(d.Notes)
	if len(d.Trailer) > 0 {
		p.line("")
	}
	p.trailer(d.Trailer)
	return p.Flush()
}

// A printer writes lines; its bufio.Writer keeps the first error.
type printer struct {
	*bufio.Writer
	Options
}

func newPrinter(w io.Writer, opt Options) *printer {
	if opt.Width <= 0 {
		opt.Width = defaultWidth
	}
	opt.Width = max(opt.Width, minWidth)
	return &printer{Writer: bufio.NewWriter(w), Options: opt}
}

// A style is how a piece of text stands out.
type style string

const (
	normal style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// paint applies a style where there is colour.
func (p *printer) paint(s string, how style) string {
	if !p.Color || how == normal || s == "" {
		return s
	}
	return "\x1b[" + string(how) + "m" + s + "\x1b[0m"
}

// line writes one line without blanks at its end.
func (p *printer) line(s string) {
	_, _ = p.WriteString(strings.TrimRight(s, " ") + "\n") // Flush returns the error
}

// head writes each line's parts, broken between parts.
func (p *printer) head(head [][]string) {
	for i, parts := range head {
		parts = slices.DeleteFunc(slices.Clone(parts), func(s string) bool { return s == "" })
		how := normal
		if i > 0 {
			how = dim
		}
		p.items("", "  ", parts, " · ", " ·", how)
	}
}

// items writes parts in as few lines as they take.
func (p *printer) items(first, next string, parts []string, between, atEnd string, how style) {
	line, used := first, 0
	for i, part := range parts {
		sep := between
		if used == 0 {
			sep = ""
		}
		room := term.Width(atEnd)
		if i == len(parts)-1 {
			room = 0
		}
		if used > 0 && term.Width(line)+term.Width(sep)+term.Width(part)+room > p.Width {
			p.flush(line+atEnd, how)
			line, used, sep = next, 0, ""
		}
		if used == 0 && term.Width(line)+term.Width(part)+room > p.Width { // longer than any line
			rest := part
			if i < len(parts)-1 {
				rest += atEnd
			}
			p.wrap(line, next, rest, how)
			line = next
			continue
		}
		line += sep + part
		used++
	}
	if used > 0 {
		p.flush(line, how)
	}
}

// flush writes one line in a style, except for its indentation.
func (p *printer) flush(line string, how style) {
	body := strings.TrimLeft(line, " ")
	p.line(line[:len(line)-len(body)] + p.paint(body, how))
}

// wrap writes a text, broken between words or, where a word is longer than a
// line, in it.
func (p *printer) wrap(first, next, text string, how style) {
	prefix := first
	for _, s := range term.WrapBreaking(text, p.Width-max(term.Width(first), term.Width(next))) {
		p.line(prefix + p.paint(s, how))
		prefix = next
	}
}

// lines writes a section of names and what is said about each.
func (p *printer) lines(title string, all []report.Line) {
	if len(all) == 0 {
		return
	}
	p.line("")
	p.wrap(indent, indent, title, bold)
	widest := 0
	for _, l := range all {
		widest = max(widest, term.Width(l.Name))
	}
	widest = min(widest, p.Width/3)
	hang := strings.Repeat(" ", 2*len(indent)+widest+2)
	for _, l := range all {
		first := term.Pad(indent+indent+l.Name, len(hang), false)
		if term.Width(l.Name) > widest {
			p.wrap(indent+indent, indent+indent, l.Name, normal)
			first = hang
		}
		p.items(first, hang, l.Text, ", ", ",", normal)
	}
}

// notes writes the warnings.
func (p *printer) notes(all []report.Note) {
	if len(all) == 0 {
		return
	}
	p.line("")
	for _, n := range all {
		mark := "!"
		if n.Mark > 0 {
			mark = superscript(n.Mark)
		}
		prefix := term.Pad(indent+mark, len(indent)+2, false)
		hang := strings.Repeat(" ", term.Width(prefix))
		p.wrap(term.Pad(prefix, term.Width(prefix), false), hang, n.Text, yellow)
		if n.Hint != "" {
			p.wrap(hang+"→ ", hang+"  ", n.Hint, normal)
		}
	}
}

func (p *printer) trailer(all []string) {
	for _, s := range all {
		p.items("", "  ", strings.Split(plain.Line(s), " · "), " · ", " ·", normal)
	}
}

// superscript writes a number as a footnote's mark.
func superscript(n int) string {
	digits := []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")
	var out []rune
	for ; n > 0; n /= 10 {
		out = append(out, digits[n%10])
	}
	slices.Reverse(out)
	return string(out)
}

// marks writes several footnotes' marks.
func marks(all []int) string {
	var out []string
	for _, n := range slices.Compact(slices.Sorted(slices.Values(all))) {
		out = append(out, superscript(n))
	}
	return strings.Join(out, " ")
}
