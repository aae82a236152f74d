package text

import (
	"io"
	"regexp"
	"strings"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/term"
)

const (
	leastFinding = 12 // columns of a finding, where there is no room for more
	leastLabel   = 12
)

// WriteFindings renders the tables of what people read first, and no more.
func WriteFindings(w io.Writer, d *report.Document, opt Options) error {
	p := newPrinter(w, opt)
	for i := range d.Screen.Tables {
		p.findings(&d.Screen.Tables[i])
	}
	return p.Flush()
}

// screen writes what people read first.
func (p *printer) screen(d *report.Document) {
	p.wrap("", indent, d.Screen.Title, bold)
	for _, parts := range d.Screen.Sides {
		p.items(indent, indent+indent, parts, " · ", " ·", dim)
	}
	if len(d.Screen.Remarks) > 0 {
		p.wrap(indent, indent, strings.Join(d.Screen.Remarks, " · "), dim)
	}
	for i := range d.Screen.Tables {
		p.line("")
		p.findings(&d.Screen.Tables[i])
	}
	p.lines("not supported", d.View.Absent)
	p.lines("failed", d.View.Failures)
	p.lines("ended early by the user", d.View.Canceled)
	p.lines("notes on this run", d.View.Written)
	p.line("")
	p.wrap("", indent, d.Screen.Trust, trustStyle(d.Trust))
	p.steps(d.Next)
}

func trustStyle(t *report.Trust) style {
	switch t.Level {
	case "low":
		return red
	case "medium":
		return yellow
	case "high":
		return green
	default:
		return normal
	}
}

// steps writes commands and what they give, in two columns where there is room.
func (p *printer) steps(all []report.Step) {
	widest := 0
	for _, s := range all {
		widest = max(widest, term.Width(s.Command))
	}
	for _, s := range all {
		first := term.Pad(s.Command, widest, false) + "  "
		if term.Width(first)+term.Width(s.Gives) > p.Width {
			p.wrap("", indent, s.Command, normal)
			first = indent + indent
		}
		p.wrap(first, strings.Repeat(" ", min(term.Width(first), p.Width/2)), s.Gives, dim)
	}
}

// findings writes a table whose cells are folded where they do not fit. Where even that
// takes too much room, the columns come in several parts, each with the first two.
func (p *printer) findings(t *report.Table) {
	widths := natural(t)
	fixed := 1 // the label and, on the right of its column, the baseline's value
	if len(widths) > 2 && t.Columns[fixed].Right {
		fixed++
	}
	p.narrowBaseline(t, widths, fixed)
	for from := fixed; from < len(widths); {
		to := p.fit(widths, fixed, from)
		cols := append(sequence(0, fixed), sequence(from, to)...)
		p.findingsPart(t, cols, p.narrowed(widths, fixed, cols))
		if from = to; from < len(widths) {
			p.line("")
		}
	}
}

// natural is how wide each column is without folding.
func natural(t *report.Table) []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = term.Width(c.Name)
	}
	for _, g := range t.Groups {
		for _, r := range g.Lines {
			for i, c := range r.Cells {
				widths[i] = max(widths[i], term.Width(c))
			}
		}
	}
	return widths
}

// narrowBaseline folds the baseline's name, if with it there is no room for one finding: its values are
// shorter.
func (p *printer) narrowBaseline(t *report.Table, widths []int, fixed int) {
	if fixed < 2 {
		return
	}
	room := p.Width - len(indent) - min(widths[0], p.label()) - 2*gap - leastFinding
	if widths[1] <= room {
		return
	}
	values := 0
	for _, g := range t.Groups {
		for _, r := range g.Lines {
			values = max(values, term.Width(r.Cells[1]))
		}
	}
	widths[1] = max(values, room)
}

// fit says up to which column, from one on, there is room for findings of the least width.
func (p *printer) fit(widths []int, fixed, from int) (to int) {
	used := len(indent) + min(widths[0], p.label())
	for _, w := range widths[1:fixed] {
		used += gap + w
	}
	for to = from; to < len(widths); to++ {
		used += gap + min(widths[to], leastFinding)
		if used > p.Width && to > from {
			return to
		}
	}
	return to
}

// label is how wide labels are at most.
func (p *printer) label() int { return max(leastLabel, p.Width/4) }

// narrowed are the widths of some columns: natural ones where they fit.
func (p *printer) narrowed(widths []int, fixed int, cols []int) []int {
	out := make([]int, len(cols))
	sum := len(indent) - gap
	for i, c := range cols {
		out[i] = widths[c]
		sum += gap + out[i]
	}
	if least := min(out[0], p.label()); sum > p.Width {
		less := min(out[0]-least, sum-p.Width)
		out[0], sum = out[0]-less, sum-less
	}
	for sum > p.Width { // the widest finding gives
		widest := fixed
		for i := fixed; i < len(out); i++ {
			if out[i] > out[widest] {
				widest = i
			}
		}
		if widest >= len(out) || out[widest] <= 1 {
			break
		}
		out[widest]--
		sum--
	}
	return out
}

func sequence(from, to int) (all []int) {
	for ; from < to; from++ {
		all = append(all, from)
	}
	return all
}

// findingsPart writes some columns of every row.
func (p *printer) findingsPart(t *report.Table, cols, widths []int) {
	head := report.TableRow{}
	for _, c := range t.Columns {
		head.Cells = append(head.Cells, c.Name)
	}
	p.folded(t, cols, widths, head.Cells, func(int) style { return bold })
	for _, g := range t.Groups {
		if g.Title != "" {
			p.wrap(indent, indent, g.Title, bold)
		}
		for _, r := range g.Lines {
			p.folded(t, cols, widths, r.Cells, func(c int) style { return toneStyle(r.Tones[c]) })
		}
	}
}

// folded writes one row in as many lines as its longest cell takes.
func (p *printer) folded(t *report.Table, cols, widths []int, cells []string, how func(column int) style) {
	lines := make([][]string, len(cols))
	height := 0
	for i, c := range cols {
		lines[i] = foldFinding(cells[c], widths[i])
		height = max(height, len(lines[i]))
	}
	for n := range height {
		var b strings.Builder
		b.WriteString(indent)
		for i, c := range cols {
			if i > 0 {
				b.WriteString(strings.Repeat(" ", gap))
			}
			text := ""
			if n < len(lines[i]) {
				text = lines[i][n]
			}
			padded := term.Pad(text, widths[i], t.Columns[c].Right)
			b.WriteString(strings.Replace(padded, text, p.paint(text, how(c)), 1))
		}
		p.line(b.String())
	}
}

// foldFinding breaks a finding before its brackets, if it has to be broken.
func foldFinding(s string, width int) []string {
	if term.Width(s) <= width {
		return []string{s}
	}
	if at := strings.Index(s, " ("); at > 0 {
		return append(foldFinding(s[:at], width), foldFinding(s[at+1:], width)...)
	}
	lines := term.WrapBreaking(afterNumber.ReplaceAllString(s, "$1"+keptBlank), width)
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, keptBlank, " ")
	}
	return lines
}

// A number and what follows it, such as its unit, stay on one line: the blank between them is
// replaced by a character that is no blank, has the same width, and is in no finding.
const keptBlank = "\x00"

var afterNumber = regexp.MustCompile(`((?:^|[ (])[±+−]?[0-9.,–]+) `)
