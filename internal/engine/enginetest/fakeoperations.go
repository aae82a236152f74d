package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// Pause implements bench.Pauser. A container that is paused prints nothing and
// does not exit. The time of its sleep passes meanwhile.
func (f *Fake) Pause(ctx context.Context, c bench.Container) error {
	return f.operate(ctx, OpPause, c, func(own *fakeContainer) error {
		own.mu.Lock()
		defer own.mu.Unlock()
		if own.paused() {
			return fmt.Errorf("pause %s: %w", own.ID(), errOrder)
		}
		own.thawed = make(chan struct{})
		return nil
	})
}

// Resume implements bench.Pauser.
func (f *Fake) Resume(ctx context.Context, c bench.Container) error {
	return f.operate(ctx, OpResume, c, func(own *fakeContainer) error {
		own.mu.Lock()
		defer own.mu.Unlock()
		if !own.paused() {
			return fmt.Errorf("resume %s: %w", own.ID(), errOrder)
		}
		close(own.thawed)
		return nil
	})
}

// paused must be called with c.mu held.
func (c *fakeContainer) paused() bool {
	select {
	case <-c.thawed:
		return false
	default:
		return true
	}
}

// Exec implements bench.Execer. The process is killed when ctx ends or the
// container's first process has exited.
func (f *Fake) Exec(
	ctx context.Context, c bench.Container, argv []string, stdout, stderr io.Writer,
) (exit bench.Exit, err error) {
	err = f.operate(ctx, OpExec, c, func(own *fakeContainer) error {
		if len(argv) == 0 || argv[0] != agent.Path {
			return fmt.Errorf("exec %q in %s: %w", argv, own.ID(), fs.ErrNotExist)
		}
		p := program{c: own, out: stdout, errOut: stderr, end: own.exited}
		inside, cancel := p.context(ctx)
		defer cancel()
		exit = p.do(inside, f.now(), argv[1:])
		return ctx.Err()
	})
	return exit, err
}

// Signal implements bench.Signaler. Signals but SIGTERM and SIGKILL do nothing.
func (f *Fake) Signal(ctx context.Context, c bench.Container, s syscall.Signal) error {
	return f.operate(ctx, OpSignal, c, func(own *fakeContainer) error {
		switch s {
		case syscall.SIGTERM:
			own.term.send()
		case syscall.SIGKILL:
			own.kill.send()
		}
		return nil
	})
}

// Stop implements bench.Stopper.
func (f *Fake) Stop(ctx context.Context, c bench.Container, grace time.Duration) error {
	return f.operate(ctx, OpStop, c, func(own *fakeContainer) error {
		own.term.send()
		patient, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		select {
		case <-own.exited:
			return nil
		case <-patient.Done():
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		own.kill.send()
		<-own.exited
		return nil
	})
}

// Daemons implements bench.ProcessReporter: there are none.
func (f *Fake) Daemons(context.Context) ([]int, error) { return nil, nil }

// Pid implements bench.ProcessReporter, with a number that no process of a real host
// has.
func (f *Fake) Pid(_ context.Context, c bench.Container) (int, error) {
	const beyond = 1 << 22 // the kernel's PID_MAX_LIMIT
	own, err := f.own(c)
	if err != nil {
		return 0, err
	}
	return beyond + own.number, nil
}

// operate does an operation on a container that runs.
func (f *Fake) operate(ctx context.Context, op Op, c bench.Container, do func(own *fakeContainer) error) error {
	own, err := f.own(c)
	if err != nil {
		return err
	}
	if err := f.do(ctx, op, own.number); err != nil {
		return err
	}
	if !own.runs() {
		return fmt.Errorf("%s %s: %w", op, own.ID(), errOrder)
	}
	return do(own)
}

func (f *Fake) own(c bench.Container) (*fakeContainer, error) {
	own, ok := c.(*fakeContainer)
	if !ok || own.fake != f {
		return nil, errors.New(c.ID() + " belongs to another engine")
	}
	return own, nil
}

func (c *fakeContainer) runs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.exited:
		return false
	default:
		return c.started
	}
}
