package floor

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// Pause implements bench.Pauser with the kernel's freezer. It needs a group.
func (e *Engine) Pause(ctx context.Context, c bench.Container) error {
	own, err := e.running(c)
	if err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	if own.groups == nil {
		_, err := e.groups()
		return fmt.Errorf("%s: pause: %w", e.config.Name, err)
	}
	own.frozen.Store(true) // even if it fails
	return own.groups.Freeze(ctx, own.group)
}

// Resume implements bench.Pauser.
func (e *Engine) Resume(ctx context.Context, c bench.Container) error {
	own, err := e.running(c)
	if err != nil || own.groups == nil {
		return err // without a group nothing was paused
	}
	if err := own.groups.Thaw(ctx, own.group); err != nil {
		return err
	}
	own.frozen.Store(false)
	return nil
}

// Signal implements bench.Signaler.
func (e *Engine) Signal(_ context.Context, c bench.Container, s syscall.Signal) error {
	own, err := e.running(c)
	if err == nil {
		err = own.process.Signal(s)
	}
	if err != nil {
		return fmt.Errorf("signal: %w", err)
	}
	return nil
}

// Daemons implements bench.ProcessReporter: there are none.
func (e *Engine) Daemons(context.Context) ([]int, error) { return nil, nil }

// Pid implements bench.ProcessReporter.
func (e *Engine) Pid(_ context.Context, c bench.Container) (int, error) {
	own, err := e.running(c)
	if err != nil {
		return 0, err
	}
	return own.process.Pid, nil
}

// running returns a container of this engine that was started and not removed.
func (e *Engine) running(c bench.Container) (*container, error) {
	own, err := bench.Own[*container](c, e.config.Name)
	if err != nil {
		return nil, err
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if !own.started || own.removed {
		return nil, fmt.Errorf("%s: %w", own.id, errState)
	}
	return own, nil
}

// Address implements bench.Addresser.
func (e *Engine) Address(_ context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.running(c)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netdev.Address(own.plan.spec, own.address, p)
}

// Path implements bench.Addresser.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	own, err := e.running(c)
	if err != nil {
		return nil, err
	}
	return netpath.PathTo(ctx, e, c, p, own.plan.spec.Reach)
}
