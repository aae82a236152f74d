package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/text/term"
	"github.com/tare-bench/tare/internal/text/unit"
)

const (
	maxLanes  = 20 // of a waterfall
	timeWidth = 9  // of the column with what a lane has of the path
)

// sign is how a mark of a waterfall is drawn. What is on the path is a block.
func sign(m report.Mark) string {
	return [...]string{
		report.Nothing: " ", report.Beside: "·", report.Runs: "█", report.InKernel: "▓", report.WaitsForCPU: "░",
		report.Waits: "▒", report.NotKnown: "?",
	}[m]
}

const waterfallKey = "on the critical path: █ on a CPU, ▓ in the kernel, ▒ waits, ░ waits for a CPU; · works beside it"

// unknownKey follows where that is drawn.
const unknownKey = "; ? unknown"

// nameRoom is how wide the names of lanes are, and chartRoom what is left for the picture.
func (p *printer) nameRoom() int { return max(12, p.Width/4) }

func (p *printer) chartRoom() int { return p.Width - len(indent) - p.nameRoom() - timeWidth - 2*gap }

// waterfall draws a trial: a line for each process, in the order in which they began.
func (p *printer) waterfall(w *report.Waterfall) {
	if len(w.Lanes) == 0 {
		return
	}
	room := p.chartRoom()
	s := unit.Scale(unit.Seconds, w.Value.Seconds()/10)
	before := indent + strings.Repeat(" ", p.nameRoom()+timeWidth+2*gap)
	p.line("")
	p.wrap(indent, indent, fmt.Sprintf("trial %d, with the median: %s", w.Trial, s.Format(w.Value.Seconds())), normal)
	p.line(before + p.paint(timeRuler(w.Value, s, room), dim))
	if len(w.Spans) > 1 {
		p.line(before + p.paint(spanLine(w.Spans, room), dim))
	}
	for _, l := range w.Lanes {
		onPath := unit.None
		if l.OnPath > 0 {
			onPath = s.Format(l.OnPath.Seconds())
		}
		p.line(indent + term.Pad(term.Shorten(l.Name, p.nameRoom()), p.nameRoom()+gap, false) +
			term.Pad(onPath, timeWidth, true) + strings.Repeat(" ", gap) + p.slots(l.Slots))
	}
}

// slots draws a lane. What is on the path stands out by its signs and, where there is colour, in bold.
func (p *printer) slots(all []report.Mark) string {
	var out strings.Builder
	for i := 0; i < len(all); {
		how, run := emphasis(all[i]), ""
		for ; i < len(all) && emphasis(all[i]) == how; i++ {
			run += sign(all[i])
		}
		out.WriteString(p.paint(run, how))
	}
	return out.String()
}

func emphasis(m report.Mark) style {
	switch m {
	case report.Nothing:
		return normal
	case report.Beside:
		return dim
	default:
		return bold
	}
}

// timeRuler writes round times where they are.
func timeRuler(length time.Duration, s unit.Scaler, room int) string {
	step := roundStep(s.In(length.Seconds()) / max(float64(room)/12, 1))
	line := []rune(strings.Repeat(" ", room))
	end := 0
	for i := 0; ; i++ {
		v := float64(i) * step
		at := int(math.Round(v / s.In(length.Seconds()) * float64(room)))
		text := []rune(strconv.FormatFloat(v, 'g', 6, 64))
		if i == 0 {
			text = []rune("0 " + s.Suffix)
		}
		if at+len(text) > room {
			return strings.TrimRight(string(line), " ")
		}
		if at >= end {
			copy(line[at:], text)
			end = at + len(text) + 1
		}
	}
}

// roundStep is 1, 2 or 5 times a power of ten, and not below least.
func roundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= least*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// spanLine draws the parts of the time, with their names where they fit.
func spanLine(spans []report.WaterfallSpan, room int) string {
	line := []rune(strings.Repeat(" ", room))
	for _, s := range spans {
		from, to := min(s.From, room), min(s.To, room)
		if to-from < 2 {
			continue
		}
		for i := from; i < to; i++ {
			line[i] = '─'
		}
		line[from], line[to-1] = '├', '┤'
		name := []rune(" " + s.Name + " ")
		if fits := to - from - 2; len(name) <= fits && term.Width(s.Name)+2 == len(name) {
			copy(line[from+1+(fits-len(name))/2:], name)
		}
	}
	return strings.TrimRight(string(line), " ")
}
