package figure

import (
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

const (
	mostLanes     = 18  // of a waterfall
	laneHeight    = 25  // a label, and the bar below it
	lanesTop      = 48  // the title, the parts of the time
	keyHeight     = 48  // below the axis
	slotsPerPixel = 2   // as fine as anybody sees
	comparable    = 0.1 // of the longest: what is shorter has an axis of its own
)

// waterfalls shows, under each condition, where the time of one traced trial of each cell went: a bar for
// each process, in the order in which they began.
func waterfalls(d *report.Document) (all []Figure) {
	t := d.Timelines
	if t == nil {
		return nil
	}
	var conditions []string
	byCondition := map[string][]*report.TimelineCell{}
	for i := range t.Cells {
		c := &t.Cells[i]
		if c.Drawn == nil || c.Value == nil {
			continue
		}
		if byCondition[c.Condition] == nil {
			conditions = append(conditions, c.Condition)
		}
		byCondition[c.Condition] = append(byCondition[c.Condition], c)
	}
	for _, condition := range conditions {
		cells := byCondition[condition]
		f := Figure{
			Name: named(t.Metric, condition, "timeline"), Kind: Waterfall, Metric: questionOf(d, t.Metric),
			Title: report.Under(t.Title, condition) + ": where the time goes", Finding: waterfallFinding(cells),
			Numbers: waterfallTable(t, condition),
		}
		longest := 0.0
		for _, c := range cells {
			longest = max(longest, c.Drawn.Value.Seconds())
		}
		for _, c := range cells {
			f.Panels = append(f.Panels, waterfallPanel(t, c, longest))
		}
		all = append(all, f)
	}
	return all
}

// questionOf is the metric if it decides, so that the page has a question for it.
func questionOf(d *report.Document, metric string) string {
	for i := range d.Metrics {
		if d.Metrics[i].Name == metric && d.Metrics[i].Role == bench.Primary {
			return metric
		}
	}
	return ""
}

// waterfallFinding says of each cell where most of its time goes, and how to read the picture.
func waterfallFinding(cells []*report.TimelineCell) string {
	var parts []string
	for _, c := range cells {
		s := c.Summary() + ". Most of it: " + c.Longest(3) + "."
		if len(c.Warnings) > 0 {
			s += " Note: " + strings.Join(c.Warnings, "; ") + "."
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ") + " Drawn is the trial with the median time, with bars for each process. The " +
		"higher the bar, the more it was at work; all bars together are one chain of causes. A thin line is work beside " +
		"that chain, which is never added to it."
}

// waterfallTable has the differences and the cells of a condition.
func waterfallTable(t *report.Timelines, condition string) *report.Table {
	out := &report.Table{
		Title: report.Under(t.Title, condition) + ", where it goes on average", HasHeadings: true,
		Subtitle: "the intervals of a difference hold for all its rows together",
	}
	add := func(part report.Table) {
		out.Columns = part.Columns
		out.Columns[2].Name = "time"
		out.Groups = append(out.Groups, report.RowGroup{Title: part.Title, Lines: part.Groups[0].Lines})
	}
	all := t.DifferenceTables()
	for i := range t.Differences {
		if t.Differences[i].Condition == condition {
			add(all[i])
		}
	}
	for i := range t.Cells {
		if c := &t.Cells[i]; c.Condition == condition && c.Value != nil {
			add(c.Table())
		}
	}
	return out
}

// waterfallPanel draws one trial.
func waterfallPanel(t *report.Timelines, c *report.TimelineCell, longest float64) Panel {
	const slots = (width - 2*margin) * slotsPerPixel
	value := c.Drawn.Value.Seconds()
	end := longest
	if value < comparable*longest {
		end = value
	}
	x := axis{from: 0, to: max(end, 1e-9), lo: margin, hi: width - margin}
	all := linearTicks(0, end, 4)
	scale := unit.Scale(unit.Seconds, append([]float64{end}, all...)...)
	for _, v := range all {
		x.ticks = append(x.ticks, tick{v, scale.Format(v)})
	}
	w := report.NewWaterfall(c.Drawn, slots, mostLanes)
	bottom := float64(lanesTop + laneHeight*len(w.Lanes))
	var b canvas
	b.text(margin, 14, left, words, normal, shorten(c.Name(), 30))
	b.text(width-margin, 14, right, words, normal, unit.Format(value, unit.Seconds))
	b.horizontal(&x, lanesTop-12, bottom)
	place := func(slot int) float64 { return x.at(value * float64(slot) / slots) }
	for _, s := range w.Spans {
		b.span(place(s.From), place(s.To), s.Name)
	}
	for i := range w.Lanes {
		b.lane(&w.Lanes[i], float64(lanesTop+i*laneHeight), place)
	}
	b.waterfallKey(bottom + axisSpace)
	return Panel{
		Title:   plain.Line(t.Title) + " of " + c.Name() + ": where the time of one trial went",
		Finding: c.Summary() + ". Most of it: " + c.Longest(3) + ".",
		Width:   width, Height: bottom + axisSpace + keyHeight, body: b.String(),
	}
}

// span draws a part of the time above the lanes.
func (c *canvas) span(from, to float64, name string) {
	const y = 28
	c.line(from, y-4, from, y+4, frame, 1)
	c.line(from, y, to, y, frame, 1)
	c.line(to, y-4, to, y+4, frame, 1)
	if textWidth(name)+8 <= to-from {
		c.rect((from+to)/2-textWidth(name)/2-2, y-6, textWidth(name)+4, 12, paper)
		c.text((from+to)/2, y+4, middle, muted, small, name)
	}
}

// lane draws a process: its name, what it has of the path, and a bar for each stretch. Hovering shows its
// longest stretches.
func (c *canvas) lane(l *report.WaterfallLane, y float64, place func(slot int) float64) {
	c.WriteString("<g><title>" + escape(strings.Join(append([]string{l.Name}, l.Longest...), " · ")) + "</title>")
	onPath := "beside"
	if l.OnPath > 0 {
		onPath = unit.Format(l.OnPath.Seconds(), unit.Seconds)
	}
	c.text(margin, y+9, left, words, small, shorten(l.Name, 38))
	c.text(width-margin, y+9, right, muted, small, onPath)
	for i := 0; i < len(l.Slots); {
		from, m := i, l.Slots[i]
		for i < len(l.Slots) && l.Slots[i] == m {
			i++
		}
		if m != report.Nothing {
			c.stretch(place(from), place(i), y+18, m)
		}
	}
	c.WriteString("</g>")
}

// stretch draws what a process did for a while. Its height says the same as its colour.
func (c *canvas) stretch(from, to, y float64, m report.Mark) {
	i, high := look(m)
	c.rect(from, y-high/2, to-from, high, i)
}

func look(m report.Mark) (i ink, height float64) {
	switch m {
	case report.Runs:
		return lineInk(1), 10
	case report.InKernel:
		return lineInk(4), 7
	case report.Waits:
		return lineInk(2), 4
	case report.WaitsForCPU:
		return lineInk(5), 2.5
	case report.NotKnown:
		return none, 5.5
	default:
		return muted, 1
	}
}

// waterfallKey explains the bars.
func (c *canvas) waterfallKey(y float64) {
	const column = (width - 2*margin) / 2
	for i, k := range []struct {
		mark report.Mark
		text string
	}{
		{report.Runs, "on a CPU"},
		{report.InKernel, "in the kernel"},
		{report.Waits, "waits"},
		{report.WaitsForCPU, "waits for a CPU"},
		{report.Beside, "works beside the chain"},
		{report.NotKnown, "not known"},
	} {
		x, row := float64(margin+i%2*column), y+float64(i/2*keyRow)
		c.stretch(x, x+16, row+6, k.mark)
		c.text(x+22, row+10, left, words, small, k.text)
	}
}
