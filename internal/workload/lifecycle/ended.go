package lifecycle

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
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
		l.early = true
		l.notes = append(l.notes, NoteEndedEarly)
		return nil
	}
	return err
}

// hasEnded reports whether the process inside has ended by itself. It has not,
// as far as tare knows, where the engine does not show its processes to tare. The
// agent's does not end by itself.
func (l *life) hasEnded(ctx context.Context) (ended bool, err error) {
	o, ok := bench.As[bench.Overseer](l.engine)
	if !ok || l.marks {
		return false, nil
	}
	_, err = l.clock.Step("look", func() error {
		pid, err := o.Pid(ctx, l.container)
		switch {
		case errors.Is(err, bench.ErrUnsupported):
			return nil
		case err == nil && proc.Runs("/", pid):
			return nil
		}
		_, ended = l.exit(ctx)
		return nil
	})
	return ended, err
}

// exit asks the engine how the container has ended. One that has not is waited
// for, for a moment.
func (l *life) exit(ctx context.Context) (bench.Exit, bool) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	exit, err := l.container.Wait(ctx)
	return exit, err == nil
}

// unlessEnded is the error of a signal, unless it comes of a process that had
// ended. One that a signal has ended is not: then the engine has done what it was
// asked for, and failed all the same.
func (l *life) unlessEnded(ctx context.Context, err error) error {
	exit, ended := l.exit(ctx)
	if ended && !slices.Contains([]int{killed, terminated}, exit.Code) {
		return errEnded
	}
	return err
}

// What a shell would say of a process that a signal has ended.
const (
	killed     = 128 + int(syscall.SIGKILL)
	terminated = 128 + int(syscall.SIGTERM)
)
