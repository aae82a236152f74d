package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// Pause implements bench.Pauser. It returns when the first process has stopped.
func (e *Engine) Pause(ctx context.Context, c bench.Container) error {
	p, err := e.processOf(c)
	if err != nil {
		return err
	}
	if err := p.signalAll(unix.SIGSTOP); err != nil {
		return fmt.Errorf("pause %s: %w", p.id, err)
	}
	if !pollUntil(ctx, p.stopped) {
		return fmt.Errorf("pause %s: %w", p.id, ctx.Err())
	}
	return nil
}

// Resume implements bench.Pauser.
func (e *Engine) Resume(_ context.Context, c bench.Container) error {
	p, err := e.processOf(c)
	if err != nil {
		return err
	}
	if err := p.signalAll(unix.SIGCONT); err != nil {
		return fmt.Errorf("resume %s: %w", p.id, err)
	}
	return nil
}

// Signal implements bench.Signaler.
func (e *Engine) Signal(_ context.Context, c bench.Container, s syscall.Signal) error {
	p, err := e.processOf(c)
	if err != nil {
		return err
	}
	started, err := p.running()
	if err == nil {
		err = started.Signal(s)
	}
	if err != nil {
		return fmt.Errorf("signal %s: %w", p.id, err)
	}
	return nil
}

// Exec implements bench.Execer. The process ends with the first process at the latest, as in a
// container.
func (e *Engine) Exec(
	ctx context.Context, c bench.Container, argv []string, stdout, stderr io.Writer,
) (bench.Exit, error) {
	p, err := e.processOf(c)
	if err != nil {
		return bench.Exit{}, err
	}
	exit, err := p.exec(ctx, argv, stdout, stderr)
	if err != nil {
		err = fmt.Errorf("exec in %s: %w", p.id, err)
	}
	return exit, err
}

// Daemons implements bench.ProcessReporter: there are none.
func (e *Engine) Daemons(context.Context) ([]int, error) { return nil, nil }

// Pid implements bench.ProcessReporter.
func (e *Engine) Pid(_ context.Context, c bench.Container) (int, error) {
	p, err := e.processOf(c)
	if err != nil {
		return 0, err
	}
	started, err := p.running()
	if err != nil {
		return 0, fmt.Errorf("process of %s: %w", p.id, err)
	}
	return started.Pid, nil
}

func (e *Engine) processOf(c bench.Container) (*process, error) {
	return bench.Own[*process](c, e.config.Name)
}

// running returns the first process if it was started and not removed.
func (p *process) running() (*os.Process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started == nil || p.removed {
		return nil, errState
	}
	return p.started, nil
}

// signalAll sends a signal to the process groups of the first process and of the processes that
// Exec has started, which may have ended.
func (p *process) signalAll(s unix.Signal) error {
	if err := p.signalGroup(s); err != nil {
		return err
	}
	p.signalling.Lock()
	defer p.signalling.Unlock()
	for other := range p.execs {
		if err := other.signalGroup(s); err != nil && !errors.Is(err, errState) {
			return err
		}
	}
	return nil
}

func (p *process) signalGroup(s unix.Signal) error {
	started, err := p.running()
	if err != nil {
		return err
	}
	p.signalling.Lock()
	defer p.signalling.Unlock()
	if p.reaped {
		return errState
	}
	return unix.Kill(-started.Pid, s)
}

// stopped reports whether the process has stopped or ended. Stopping takes microseconds, so it
// polls for a while.
func (p *process) stopped() bool {
	const code = unix.WSTOPPED | unix.WEXITED | unix.WNOWAIT | unix.WNOHANG
	for range 200 {
		var info unix.Siginfo
		err := ignoreInterrupts(func() error { return unix.Waitid(unix.P_PID, p.started.Pid, &info, code, nil) })
		if err != nil || info.Signo != 0 { // an error means that the process was reaped
			return true
		}
	}
	return false
}

// exec runs another process of the same plan, and removes it.
func (p *process) exec(ctx context.Context, argv []string, stdout, stderr io.Writer) (exit bench.Exit, err error) {
	if _, err := p.running(); err != nil {
		return exit, err
	}
	other, err := p.newSibling(argv)
	if err != nil {
		return exit, err
	}
	p.addChild(other)
	defer func() {
		p.removeChild(other)
		err = errors.Join(err, other.Remove(context.WithoutCancel(ctx)))
	}()
	if err := other.Attach(ctx, stdout, stderr); err != nil {
		return exit, err
	}
	if err := other.Start(ctx); err != nil {
		return exit, err
	}
	select {
	case <-other.exited:
		return other.exit, other.err
	case <-ctx.Done():
		return exit, ctx.Err()
	case <-p.exited:
		return bench.Exit{Code: 128 + int(unix.SIGKILL), Signal: int(unix.SIGKILL)}, nil
	}
}

// newSibling returns a process with the same plan that runs another program.
func (p *process) newSibling(argv []string) (*process, error) {
	if len(argv) == 0 {
		return nil, errors.New("no program given")
	}
	next := p.plan
	next.argv = slices.Clone(argv)
	var err error
	if next.program, err = next.find(argv[0]); err != nil {
		return nil, fmt.Errorf("program %q: %w", argv[0], err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return newProcess(p.id+"-exec", next, null), nil
}

func (p *process) addChild(other *process) {
	p.signalling.Lock()
	defer p.signalling.Unlock()
	if p.execs == nil {
		p.execs = map[*process]struct{}{}
	}
	p.execs[other] = struct{}{}
}

func (p *process) removeChild(other *process) {
	p.signalling.Lock()
	defer p.signalling.Unlock()
	delete(p.execs, other)
}

// Address implements bench.Addresser: the port is the host's own.
func (e *Engine) Address(_ context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	_, err := e.processOf(c)
	return bench.OnLoopback(p.Container), err
}

// Path implements bench.Addresser.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	return netpath.PathTo(ctx, e, c, p, "")
}
