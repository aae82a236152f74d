package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

const (
	barWidth         = 24
	heartbeat        = 30 * time.Second // between lines where stderr is no terminal
	maxShownFailures = 5                // failed trials told about as they happen
)

// progress shows people on stderr how far a run is. It is told between trials and between long parts
// of one, so it never writes while something is timed.
type progress struct {
	out   io.Writer
	now   func() time.Time
	width int
	tty   bool

	plan          bench.Plan
	began         time.Time
	lastHeartbeat time.Time
	trials        int // in the whole schedule
	done          int // when this sitting began
	before        int // trials before the extension, which are not counted; 0 where it is none
	blocksBefore  int // blocks before it
	ended         int // in this sitting
	failures      int
	measures      bool      // a trial has begun
	prepares      time.Time // since when a fixture is being made; zero while none is
	block         int
	cell          string
	part          string       // of the trial that takes long; empty where none is told
	shown         bool         // a bar is on the screen
	skipped       map[int]bool // cells whose trials are, and that it was said
	preview       *preview     // what is known so far; nil where there is no terminal
	drawn         int          // lines of it on the screen, above the bar
	told          func() int64 // lines of messages so far; a signal can add to them at any time
	above         int64        // of them, those that came before the table was drawn
}

// newProgress shows on out how a session goes: on stderr, or in a log.
func (a *invocation) newProgress(s app.Session, out io.Writer) *progress {
	h := s.Header
	width, tty := terminal(out)
	p := &progress{
		out: out, now: a.now, width: width, tty: tty, plan: h.Plan, began: a.now(),
		lastHeartbeat: a.now(), skipped: map[int]bool{}, told: a.told.Load,
	}
	if tty {
		color, err := a.color()
		p.preview = newPreview(s, color && err == nil, terminalHeight(out))
	}
	p.extends(s)
	return p
}

func (p *progress) observe(e run.Event) {
	p.observePreview(e)
	switch e := e.(type) {
	case run.Began:
		p.trials, p.done = e.Trials-p.before, e.Done-p.before
	case run.SetUpBegan:
		p.prepares = p.now()
		p.show(fmt.Sprintf("preparing %s (%d of %d)", analysis.CellName(&p.plan.Cells[e.Cell]), e.Cell+1, len(p.plan.Cells)))
	case run.TrialBegan:
		p.measure()
		p.block, p.cell, p.part = e.Trial.Block, p.plan.Cells[e.Trial.Cell].Name, ""
		p.showTrial()
	case run.PartBegan:
		p.part = e.Part
		p.showTrial()
	case run.TurnsTaken:
		p.cell, p.part = "taking turns", ""
		p.showTrial()
	case run.TrialEnded:
		p.measure() // it may have been skipped
		p.ended++
		p.failed(e.Sample)
	case run.Ended:
		p.end()
	}
}

// measure starts or continues the time that counts against the budget. Preparations do not
// count.
func (p *progress) measure() {
	switch {
	case !p.measures:
		p.began, p.measures = p.now(), true
	case !p.prepares.IsZero():
		p.began = p.began.Add(p.now().Sub(p.prepares))
	}
	p.prepares = time.Time{}
}

// failed tells about the first failures at once: a run that goes wrong should
// not look as if it went well.
func (p *progress) failed(s bench.Sample) {
	switch s.Outcome {
	case bench.OK, bench.Unsupported:
		return
	case bench.Skipped: // all of the cell are, for one reason
		if p.skipped[s.Trial.Cell] {
			return
		}
		p.skipped[s.Trial.Cell] = true
	}
	p.failures++
	if p.failures > maxShownFailures {
		return
	}
	p.end()
	cell := p.plan.Cells[s.Trial.Cell]
	if cell.Condition != "" {
		cell.Name += " (" + cell.Condition + ")"
	}
	fmt.Fprintf(p.out, "%s: %s: %s\n", plain.Line(cell.Name), plain.Line(string(s.Outcome)),
		indentContinuation(bench.BriefReason(s.Reason)))
	if p.failures == maxShownFailures {
		fmt.Fprintln(p.out, "further failures are counted but not shown here")
	}
}

// showTrial says how far the run is.
func (p *progress) showTrial() {
	if p.tty {
		p.show(p.line())
		return
	}
	_, left := p.remaining()
	p.show(p.position() + strings.TrimSuffix(", "+p.part, ", ") + ", " + left)
}

// show puts a line on the terminal, or prints one every heartbeat if there is no terminal.
func (p *progress) show(text string) {
	text = plain.Line(text)
	switch {
	case p.tty:
		if runes := []rune(text); len(runes) >= p.width {
			text = string(runes[:max(p.width-1, 0)])
		}
		fmt.Fprintf(p.out, "\r\x1b[K%s", text)
		p.shown = true
	case p.now().Sub(p.lastHeartbeat) >= heartbeat:
		p.lastHeartbeat = p.now()
		fmt.Fprintln(p.out, text)
	}
}

// end takes the bar off the screen, and the table above it.
func (p *progress) end() {
	if !p.shown {
		return
	}
	p.print("\r\x1b[K")
	if p.drawn > 0 {
		p.erase()
	}
	p.shown, p.drawn = false, 0
}

// erase deletes the table above the bar, and leaves messages that have come between them. What
// they have pushed off the screen cannot be deleted.
func (p *progress) erase() {
	between := int(p.told() - p.above)
	lines := min(p.drawn, p.preview.height-1-between)
	if lines <= 0 {
		return
	}
	p.print(fmt.Sprintf("\x1b[%dA\x1b[%dM", lines+between, lines))
	if between > 0 {
		p.print(fmt.Sprintf("\x1b[%dB", between))
	}
}

// print writes to the terminal. That nobody sees it is no fault of the run.
func (p *progress) print(text string) { _, _ = io.WriteString(p.out, text) }

// line says block, cell and the longest time that is left.
func (p *progress) line() string {
	fraction, left := p.remaining()
	full := int(fraction * barWidth)
	return fmt.Sprintf("%s%s %3.0f %%  %s  %s  %s",
		strings.Repeat("█", full), strings.Repeat("░", barWidth-full), 100*fraction,
		p.position(), left, strings.TrimSuffix(p.cell+": "+p.part, ": "))
}

func (p *progress) position() string {
	if p.block < 0 {
		return "warm-up"
	}
	if p.before > 0 {
		return p.more()
	}
	return fmt.Sprintf("block %d", p.block+1)
}

// remaining returns how much of the run is done, and how long the rest may take:
// by the budget or by the planned blocks, whichever comes first. A block that has begun
// is finished, however long that takes. The run may end earlier, when it is precise enough.
func (p *progress) remaining() (fraction float64, left string) {
	spent := p.now().Sub(p.began)
	fraction = float64(p.done+p.ended) / float64(max(p.trials, 1))
	var rest time.Duration
	if p.ended > 0 {
		rest = spent / time.Duration(p.ended) * time.Duration(p.trials-p.done-p.ended)
	}
	if budget := p.plan.Budget; budget > 0 {
		if f := float64(spent) / float64(budget); f > fraction || p.ended == 0 {
			fraction, rest = f, budget-spent
		}
	} else if p.ended == 0 {
		return fraction, "? left"
	}
	if rest = rest.Round(time.Second); rest <= 0 {
		return min(fraction, 1), "finishing the current block"
	}
	return min(fraction, 1), "≤ " + unit.FormatDuration(rest) + " left"
}
