package text

import (
	"strings"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/term"
)

const (
	gap        = 2  // columns between columns
	minHeading = 14 // how much of a column's name is on one line, where there is no room for more
)

// table writes one table. Where its columns are too many for the width, they
// are written in several parts, each with the first column again.
func (p *printer) table(t *report.Table) {
	p.line("")
	p.title(t)
	for _, part := range p.columnSets(t) {
		p.columnSet(t, part)
	}
}

// title writes the title and, on the right, what holds for the whole table.
func (p *printer) title(t *report.Table) {
	title := t.Title
	if m := marks(t.Marks); m != "" {
		title += " " + m
	}
	aside := t.Subtitle
	if room := p.Width - len(indent) - term.Width(title) - 3; term.Width(aside) <= room {
		p.line(indent + p.paint(title, bold) + strings.Repeat(" ", room-term.Width(aside)+3) + p.paint(aside, dim))
		return
	}
	p.wrap(indent, indent, title, bold)
	p.wrap(indent+indent, indent+indent, aside, dim)
}

// A column is one column as it is written.
type column struct {
	index, width int
	right        bool
	head         []string // lines
}

// measure finds the width of each column, whose name is broken into lines of at
// most that many columns.
func measure(t *report.Table, most int) []column {
	var out []column
	for i, c := range t.Columns {
		head := c.Name
		if m := marks(c.Marks); m != "" {
			head += " " + m
		}
		col := column{index: i, right: c.Right}
		if t.HasHeadings && i > 0 {
			col.head = term.WrapBreaking(head, most)
			for _, line := range col.head {
				col.width = max(col.width, term.Width(line))
			}
		}
		for _, g := range t.Groups {
			for _, r := range g.Lines {
				col.width = max(col.width, term.Width(r.Cells[i]))
			}
		}
		out = append(out, col)
	}
	return out
}

// columnSets divides the columns into sets that fit. The first column is in every
// one; where its names are too long, they get lines of their own.
func (p *printer) columnSets(t *report.Table) [][]column {
	all, sum := p.fittingColumns(t)
	name := all[0]
	name.width = min(name.width, max(12, p.Width-sum))
	if sum+name.width <= p.Width {
		return [][]column{append([]column{name}, all[1:]...)}
	}
	name.width = min(all[0].width, p.Width/3)
	var parts [][]column
	part, used := []column{name}, 2*len(indent)+name.width
	for _, c := range all[1:] {
		if len(part) > 1 && used+gap+c.width > p.Width {
			parts = append(parts, part)
			part, used = []column{name}, 2*len(indent)+name.width
		}
		part = append(part, c)
		used += gap + c.width
	}
	return append(parts, part)
}

// fittingColumns are the columns, with names in as few lines as there is room for, and what
// all but the first take.
func (p *printer) fittingColumns(t *report.Table) (all []column, sum int) {
	for head := max(p.Width/2, minHeading); head >= minHeading; head-- {
		all, sum = measure(t, head), 2*len(indent)+markWidth(t)
		for _, c := range all[1:] {
			sum += gap + c.width
		}
		if sum+all[0].width <= p.Width {
			break
		}
	}
	return all, sum
}

// markWidth is what the longest marks take.
func markWidth(t *report.Table) int {
	widest := 0
	for _, g := range t.Groups {
		for _, r := range g.Lines {
			if m := marks(r.Marks); m != "" {
				widest = max(widest, gap+term.Width(m))
			}
		}
	}
	return widest
}

// columnSet writes some columns of every row.
func (p *printer) columnSet(t *report.Table, cols []column) {
	p.headings(cols)
	last := cols[len(cols)-1].index == len(t.Columns)-1
	for _, g := range t.Groups {
		if g.Title != "" {
			p.wrap(indent+" ", indent+" ", g.Title, bold)
		}
		for _, r := range g.Lines {
			p.row(t, cols, &r, last)
		}
	}
}

// headings writes the columns' names, each ending just above its values.
func (p *printer) headings(cols []column) {
	lines := 0
	for _, c := range cols {
		lines = max(lines, len(c.head))
	}
	for i := range lines {
		p.line(p.paint(p.cells(cols, func(c column) string {
			if at := i - (lines - len(c.head)); at >= 0 {
				return c.head[at]
			}
			return ""
		}), dim))
	}
}

// cells lines up one row.
func (p *printer) cells(cols []column, get func(c column) string) string {
	var out strings.Builder
	out.WriteString(indent + indent)
	for i, c := range cols {
		if i > 0 {
			out.WriteString(strings.Repeat(" ", gap))
		}
		out.WriteString(term.Pad(get(c), c.width, c.right))
	}
	return out.String()
}

// row writes one row; the verdict, if it is the last column, has a colour.
func (p *printer) row(t *report.Table, cols []column, r *report.TableRow, last bool) {
	name := r.Cells[0]
	if term.Width(name) > cols[0].width {
		p.wrap(indent+indent, indent+indent, name, normal)
		name = ""
	}
	switch {
	case r.Tones != nil:
		p.coloredRow(cols, r, name)
		return
	case !last:
		p.line(p.cells(cols, func(c column) string { return cell(r, c, name) }))
		return
	}
	verdict := cols[len(cols)-1]
	line := p.cells(cols[:len(cols)-1], func(c column) string { return cell(r, c, name) })
	used := term.Width(line) + gap + verdict.width + markWidth(t)
	word := cell(r, verdict, name)
	if verdict.right {
		word = term.Pad(word, verdict.width, true)
	}
	tail := strings.Repeat(" ", gap) + p.paint(word, toneStyle(r.Tone))
	width := gap + term.Width(word)
	m := marks(r.Marks)
	if fill := max(0, gap+verdict.width-width) + gap; m != "" && p.hasRoom(term.Width(line)+width+fill, m) {
		tail += strings.Repeat(" ", fill) + m
		width += fill + term.Width(m)
		m = ""
	}
	if bar := p.bar(r.Bar, p.Width-used-2*gap); bar != "" {
		tail += strings.Repeat(" ", used-term.Width(line)-width+2*gap) + bar
	}
	p.line(line + tail)
	p.marksBelow(m)
}

// hasRoom reports whether marks fit at the end of a line that is so wide.
func (p *printer) hasRoom(width int, marks string) bool { return width+term.Width(marks) <= p.Width }

// marksBelow writes the marks of a row for which the row had no room.
func (p *printer) marksBelow(marks string) {
	if marks != "" {
		p.line(strings.Repeat(" ", max(0, p.Width-term.Width(marks))) + marks)
	}
}

// coloredRow writes a row in which each cell has its own colour.
func (p *printer) coloredRow(cols []column, r *report.TableRow, name string) {
	var line strings.Builder
	line.WriteString(indent + indent)
	width := 2 * len(indent)
	for i, c := range cols {
		if i > 0 {
			line.WriteString(strings.Repeat(" ", gap))
			width += gap
		}
		line.WriteString(p.paint(term.Pad(cell(r, c, name), c.width, c.right), toneStyle(r.Tones[c.index])))
		width += c.width
	}
	m := marks(r.Marks)
	if m != "" && p.hasRoom(width+gap, m) {
		line.WriteString(strings.Repeat(" ", gap) + m)
		m = ""
	}
	p.line(line.String())
	p.marksBelow(m)
}

func cell(r *report.TableRow, c column, name string) string {
	if c.index == 0 {
		return name
	}
	return r.Cells[c.index]
}

func toneStyle(t report.Tone) style {
	switch t {
	case report.Good:
		return green
	case report.Bad:
		return red
	case report.Uncertain:
		return yellow
	default:
		return normal
	}
}

// bar draws an interval on the axis, if there is room.
func (p *printer) bar(b *report.Bar, room int) string {
	const least, most = 16, 40
	if b == nil || p.Width < barMinWidth || room < least {
		return ""
	}
	n := min(room, most)
	at := func(v float64) int { return max(0, min(n-1, int(v*float64(n-1)+0.5))) }
	drawn := []rune(strings.Repeat(" ", n))
	drawn[at(b.One)] = '│'
	for i := at(b.Low); i <= at(b.High); i++ {
		drawn[i] = '─'
	}
	drawn[at(b.At)] = '●'
	return strings.TrimRight(string(drawn), " ")
}
