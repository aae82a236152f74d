package lifecycle

import (
	"fmt"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// mark reads the times of the first and the last instruction from the output of the
// process inside, and reports the time to the first. It trusts that process's clock if
// both times lie between the call of start and the end of the life so far. In a sandbox
// or VM with a clock of its own they do not; then the host's time of the first output
// stands for both.
func (l *lifecycleRun) mark() error {
	if !l.marks {
		return nil
	}
	mark, err := agent.ParseMark(l.out.text())
	if err != nil {
		return fmt.Errorf("%w%s", err, l.errOut.firstLineQuoted())
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
	l.values[First] = (l.createdAfter + l.first - l.started.Begin).Seconds()
	l.stages = append(l.stages, bench.Stage{
		Name: Start, Span: bench.Span{Begin: l.started.Begin, End: l.first}, Inside: l.first == mark.First,
	})
	return nil
}
