package oci

import (
	"context"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// containerOf returns the container as one of this package's.
func (e *Engine) containerOf(c bench.Container) (*container, error) {
	return bench.Own[*container](c, e.cfg.Name)
}

// Pause runs the runtime's pause.
func (e *Engine) Pause(ctx context.Context, c bench.Container) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	own.frozen.Store(true) // even if it fails
	return own.quietly(ctx, []string{"pause"})
}

// Resume runs the runtime's resume.
func (e *Engine) Resume(ctx context.Context, c bench.Container) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	if err := own.quietly(ctx, []string{"resume"}); err != nil {
		return err
	}
	own.frozen.Store(false)
	return nil
}

// Signal runs the runtime's kill.
func (e *Engine) Signal(ctx context.Context, c bench.Container, s syscall.Signal) error {
	own, err := e.containerOf(c)
	if err != nil {
		return err
	}
	return own.quietly(ctx, []string{"kill"}, strconv.Itoa(int(s)))
}

// Daemons returns none: a runtime has no daemon.
func (e *Engine) Daemons(context.Context) ([]int, error) { return nil, nil }

// Pid returns the first process, or the sandbox if the processes inside have a kernel of their own.
func (e *Engine) Pid(_ context.Context, c bench.Container) (int, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return 0, err
	}
	p, err := own.initPID()
	if err != nil {
		return 0, err
	}
	return p.pid, nil
}

// Address implements bench.Addresser.
func (e *Engine) Address(_ context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netdev.Address(own.spec, own.address, p)
}

// Path implements bench.Addresser.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return nil, err
	}
	return netpath.PathTo(ctx, e, c, p, own.spec.Reach)
}
