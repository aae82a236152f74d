package supervise

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// Ended waits until the process inside has ended, and returns how. It never returns nil.
func (p *Process) Ended(ctx context.Context) error { return p.named(p.ended(ctx)) }

// Address returns the address at which a client reaches a TCP port of the process.
func (p *Process) Address(ctx context.Context, c bench.Clock, port uint16) (at netip.AddrPort, err error) {
	a, ok := bench.As[bench.Addresser](p.engine)
	if !ok {
		return at, fmt.Errorf(
			"%w: engine %s does not tell the addresses of its containers", bench.ErrUnsupported, p.engine.Name())
	}
	_, err = c.Step("address", func() (err error) {
		at, err = a.Address(ctx, p.container, bench.Port{Container: port, Protocol: "tcp"})
		return err
	})
	return at, err
}

// ReadPath reads from the kernel the path of a packet to a port of the process, for Applied.
// The port must answer. Call it when nothing is measured.
func (p *Process) ReadPath(ctx context.Context, c bench.Clock, port uint16) error {
	a, ok := bench.As[bench.Addresser](p.engine)
	if !ok {
		return nil
	}
	_, err := c.Step("address", func() error {
		path, err := a.Path(ctx, p.container, bench.Port{Container: port, Protocol: "tcp"})
		if err == nil {
			p.SetPath(path)
		}
		return err
	})
	return err
}

// Usage returns what the processes inside use now; false if the engine does not tell
// their IDs, or if they have ended.
func (p *Process) Usage(ctx context.Context) (sum proc.Usage, known bool) {
	known = p.each(ctx, func(pid int) error {
		u, err := proc.UsageOf("/", pid)
		if err == nil {
			sum = sum.Plus(u)
		}
		return err
	})
	return sum, known
}

// CPU is the CPU time of Usage alone, which is known sooner and disturbs nothing.
func (p *Process) CPU(ctx context.Context) (sum time.Duration, known bool) {
	known = p.each(ctx, func(pid int) error {
		cpu, err := proc.CPUOf("/", pid)
		sum += cpu
		return err
	})
	return sum, known
}

// each asks for each process inside, of which some may have ended, and reports whether it was told anything.
func (p *Process) each(ctx context.Context, ask func(pid int) error) (some bool) {
	if !p.find(ctx) {
		return false
	}
	pids, err := proc.Descendants("/", p.first.PID)
	if err != nil {
		return false
	}
	for _, pid := range pids {
		some = ask(pid) == nil || some
	}
	return some
}
