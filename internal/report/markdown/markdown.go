// Package markdown renders a report as GitHub-flavoured Markdown.
package markdown

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
)

// Write renders a report.
func Write(w io.Writer, d *report.Document) error {
	p := &printer{bufio.NewWriter(w)}
	p.screen(d)
	for _, parts := range d.Head {
		parts = slices.DeleteFunc(slices.Clone(parts), func(s string) bool { return s == "" })
		if len(parts) > 0 {
			p.paragraph(plain.Markdown(strings.Join(parts, " · ")))
		}
	}
	for _, t := range d.Tables {
		p.table(&t)
	}
	p.lines("In words", d.View.Answers)
	if d.Legend != "" {
		p.paragraph("_" + plain.Markdown(d.Legend) + "_")
	}
	for _, t := range d.Details {
		p.table(&t)
	}
	for _, t := range slices.Concat(d.View.Percentiles, d.View.Timelines) {
		p.table(&t)
	}
	p.lines("Also different (correlation, not cause)", d.View.Reasons)
	p.lines("Network and storage paths, as the kernel sees them", d.View.DataPaths)
	p.lines("Noise where cells took turns (one standard deviation)", d.View.Levels)
	p.lines("Turns of a trial, and what they cost", d.View.Turns)
	p.lines("Machine and engines", d.View.Machine)
	p.lines("Not supported", d.View.Absent)
	p.lines("Failures (excluded from all numbers above)", d.View.Failures)
	p.lines("Ended early by the user (excluded from all numbers above)", d.View.Canceled)
	p.lines("Notes on this run", d.View.Written)
	p.notes(d.Notes)
	for _, s := range d.Trailer {
		p.paragraph(plain.Markdown(plain.Line(s)))
	}
	return p.Flush()
}

// screen writes what people read first.
func (p *printer) screen(d *report.Document) {
	if d.Screen.Title == "" {
		return
	}
	p.paragraph("**" + plain.Markdown(d.Screen.Title) + "**")
	for i := range d.Screen.Tables {
		p.rows(&d.Screen.Tables[i])
	}
	p.paragraph(plain.Markdown(d.Screen.Trust))
}

// A printer writes blocks; its bufio.Writer keeps the first error.
type printer struct{ *bufio.Writer }

func (p *printer) line(s string) {
	_, _ = p.WriteString(s + "\n") // Flush returns the error
}

func (p *printer) paragraph(s string) {
	p.line(s)
	p.line("")
}

// table writes a table. A title of rows becomes a row of its own.
func (p *printer) table(t *report.Table) {
	p.paragraph("### " + plain.Markdown(t.Title) + marks(t.Marks))
	if t.Subtitle != "" {
		p.paragraph(plain.Markdown(t.Subtitle))
	}
	p.rows(t)
}

// rows writes a table without its title.
func (p *printer) rows(t *report.Table) {
	var names, rules []string
	for _, c := range t.Columns {
		names = append(names, plain.Markdown(c.Name)+marks(c.Marks))
		rule := "---"
		if c.Right {
			rule = "---:"
		}
		rules = append(rules, rule)
	}
	p.row(names)
	p.row(rules)
	for _, g := range t.Groups {
		if g.Title != "" {
			title := make([]string, len(t.Columns))
			title[0] = "**" + plain.Markdown(g.Title) + "**"
			p.row(title)
		}
		for _, r := range g.Lines {
			cells := make([]string, len(r.Cells))
			for i, c := range r.Cells {
				cells[i] = plain.Markdown(c)
			}
			cells[len(cells)-1] += marks(r.Marks)
			p.row(cells)
		}
	}
	p.line("")
}

func (p *printer) row(cells []string) { p.line("| " + strings.Join(cells, " | ") + " |") }

func (p *printer) lines(title string, all []report.Line) {
	if len(all) == 0 {
		return
	}
	p.paragraph("### " + title)
	for _, l := range all {
		p.line("- **" + plain.Markdown(l.Name) + "**: " + plain.Markdown(strings.Join(l.Text, ", ")))
	}
	p.line("")
}

func (p *printer) notes(all []report.Note) {
	if len(all) == 0 {
		return
	}
	p.paragraph("### Notes")
	for _, n := range all {
		s := "- "
		if n.Mark > 0 {
			s += marks([]int{n.Mark}) + " "
		}
		s += plain.Markdown(n.Text)
		if n.Hint != "" {
			s += " → " + plain.Markdown(n.Hint)
		}
		p.line(s)
	}
	p.line("")
}

// marks writes the marks of notes.
func marks(all []int) string {
	if len(all) == 0 {
		return ""
	}
	var out []string
	for _, n := range slices.Compact(slices.Sorted(slices.Values(all))) {
		out = append(out, fmt.Sprint(n))
	}
	return "<sup>" + strings.Join(out, " ") + "</sup>"
}
