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

// errEnded is the error of stop or kill if the process had already ended by itself.
// Engines then take a few milliseconds, which say nothing about the time to end a
// running process.
var errEnded = errors.New("the process had already ended")

// awaitExit does an operation that ends the process inside. If the process had already
// ended, that is a note and no failure, and the operation has no time.
func (l *lifecycleRun) awaitExit(name string, op func() error) error {
	err := l.timed(name, op)
	if errors.Is(err, errEnded) {
		l.exitedEarly = true
		l.notes = append(l.notes, NoteEndedEarly)
		return nil
	}
	return err
}

// hasExited reports whether the process inside has ended by itself. It reports false if
// the engine does not tell its processes. The agent does not end by itself.
func (l *lifecycleRun) hasExited(ctx context.Context) (ended bool, err error) {
	o, ok := bench.As[bench.ProcessReporter](l.engine)
	if !ok || l.marks {
		return false, nil
	}
	_, err = l.clock.Step("look", func() error {
		pid, err := o.Pid(ctx, l.container)
		switch {
		case errors.Is(err, bench.ErrUnsupported):
			return nil
		case err == nil && proc.IsRunning("/", pid):
			return nil
		}
		_, ended = l.exit(ctx)
		return nil
	})
	return ended, err
}

// exit asks the engine how the container has ended, and waits briefly if it has not.
func (l *lifecycleRun) exit(ctx context.Context) (bench.Exit, bool) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	exit, err := l.container.Wait(ctx)
	return exit, err == nil
}

// unlessExited returns err, the error of a signal, or errEnded if the process had already
// ended by itself. If the signal ended the process, the engine did what was asked, and
// failed nevertheless: then the error is err.
func (l *lifecycleRun) unlessExited(ctx context.Context, err error) error {
	exit, ended := l.exit(ctx)
	if ended && !slices.Contains([]int{killed, terminated}, exit.Code) {
		return errEnded
	}
	return err
}

// The exit statuses, as in a shell, of a process that a signal has ended.
const (
	killed     = 128 + int(syscall.SIGKILL)
	terminated = 128 + int(syscall.SIGTERM)
)
