package text

import (
	"cmp"
	"io"
	"strings"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
)

// maxWaterfall is how wide a waterfall is at most: more columns show nothing more.
const maxWaterfall = 100

// WriteTimelines renders where the time of a run's starts goes. The differences come first, the largest
// part of each first. Where only one is told, the processes of its cells are drawn, too.
func WriteTimelines(w io.Writer, d *report.Document, opt Options) error {
	p := newPrinter(w, opt)
	p.Width = min(p.Width, maxWaterfall)
	p.wrap("", indent, d.Screen.Title, bold)
	p.wrap(indent, indent, plain.Line(d.Timelines.Title)+" of trials that were traced beside the timed ones", dim)
	for _, t := range d.Timelines.DifferenceTables() {
		p.rows(&t)
	}
	draws, key := len(d.Timelines.Differences) <= 1, ""
	for i := range d.Timelines.Cells {
		c := &d.Timelines.Cells[i]
		if c.Value != nil && (opt.All || draws && len(d.Timelines.Differences) == 0) {
			t := c.Table()
			p.rows(&t)
		} else {
			p.line("")
			p.wrap(indent, indent+indent, c.Summary(), bold)
		}
		for _, warning := range c.Warnings {
			p.wrap(indent+"! ", indent+"  ", warning, yellow)
		}
		if draws && c.Drawn != nil {
			w := report.NewWaterfall(c.Drawn, p.chartRoom(), maxLanes)
			p.waterfall(w)
			if key = cmp.Or(key, waterfallKey); w.HasUnknown() {
				key = waterfallKey + unknownKey
			}
		}
	}
	if key != "" {
		p.line("")
		p.wrap(indent, indent, key, dim)
	}
	if len(d.Next) > 0 {
		p.line("")
		p.steps(d.Next)
	} else if len(d.Trailer) > 0 {
		p.line("")
	}
	p.trailer(d.Trailer)
	return p.Flush()
}

// rows writes where time goes: how much, its interval, who and what.
func (p *printer) rows(t *report.Table) {
	const who, what, value, interval = 0, 1, 2, 3
	p.line("")
	p.wrap(indent, indent+indent, t.Title, bold)
	p.wrap(indent+indent, indent+indent, t.Subtitle, dim)
	widths := make([]int, len(t.Columns))
	for _, r := range t.Groups[0].Lines {
		for i, cell := range r.Cells {
			widths[i] = max(widths[i], term.Width(cell))
		}
	}
	widths[who] = min(widths[who], p.Width/4)
	for _, r := range t.Groups[0].Lines {
		first := indent + indent + term.Pad(r.Cells[value], widths[value], true) + strings.Repeat(" ", gap)
		if widths[interval] > 0 {
			first += term.Pad(r.Cells[interval], widths[interval]+gap, false)
		}
		first += term.Pad(term.Shorten(r.Cells[who], widths[who]), widths[who]+gap, false)
		hang := term.Width(first)
		if p.Width-hang < leastFinding {
			hang = 2 * len(indent)
			p.line(first)
			first = strings.Repeat(" ", hang)
		}
		p.wrap(first, strings.Repeat(" ", hang), r.Cells[what], normal)
	}
}
