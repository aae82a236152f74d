package lifecycle

import (
	"fmt"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// mark takes the first and the last instruction from what the process inside
// printed, and reports the time to the first. Its clock is believed if both lie
// between the call of start and the news of what came after; in a sandbox or VM
// with a clock of its own they do not, and then the host's time of the first
// output is taken for both.
func (l *life) mark() error {
	if !l.marks {
		return nil
	}
	mark, err := agent.ParseMark(l.out.text())
	if err != nil {
		return fmt.Errorf("%w%s", err, l.errOut.said())
	}
	l.first, l.last = mark.First, mark.Last
	end := l.exited
	if end == 0 {
		end = l.clock.Now()
	}
	if mark.First < l.started.Begin || mark.Last < mark.First || end < mark.Last {
		l.first, l.last = l.out.began, l.out.began
		l.notes = append(l.notes, bench.NoteHostClock)
	}
	l.found[First] = (l.made + l.first - l.started.Begin).Seconds()
	return nil
}
