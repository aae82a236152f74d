package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/proc"
)

// errEnded is the error of an operation that was to end a process which had
// ended by itself. What engines do then takes a few milliseconds, which say
// nothing of how long ending one takes.
var errEnded = errors.New("the process had ended before")

// end does an operation that ends the process inside. If there was nothing to
// end, that is noted and no failure, and the operation has no time.
func (l *life) end(name string, op func() error) error {
	err := l.timed(name, op)
	if errors.Is(err, errEnded) {
		l.meter.Note(bench.NoteEndedEarly)
		return nil
	}
	return err
}

// hasEnded reports whether the process inside has ended by itself, as far as
// that can be told. It is not timed. The agent does not end by itself.
func (l *life) hasEnded(ctx context.Context) bool {
	o, ok := bench.As[bench.Overseer](l.engine)
	if !ok || l.marks {
		return false
	}
	if pid, err := o.Pid(ctx, l.container); err == nil {
		if p, err := proc.Find("/", pid); err == nil && p.State != 'Z' {
			return false
		}
	}
	return l.exits(ctx)
}

// exits asks the engine whether the container has exited. One that has not is
// waited for, for a moment.
func (l *life) exits(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := l.container.Wait(ctx)
	return err == nil
}

// unlessEnded is err, unless it comes of a process that had ended.
func (l *life) unlessEnded(ctx context.Context, err error) error {
	if l.exits(ctx) {
		return errEnded
	}
	return err
}
