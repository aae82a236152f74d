package native

import (
	"context"
	"net/netip"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// Address implements bench.Addresser: the port is the host's own.
func (e *Engine) Address(_ context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	_, err := e.processOf(c)
	return bench.OnLoopback(p.Container), err
}

// Path implements bench.Addresser.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	return netpath.PathTo(ctx, e, c, p, "")
}
