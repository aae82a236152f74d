package floor

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/netpath"
)

// Address implements bench.Addresser: on the host's network a port is the host's own.
func (e *Engine) Address(_ context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.running(c)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if own.plan.spec.Network != "host" {
		return netip.AddrPort{}, fmt.Errorf("%w: %s: a container without a network has no address", bench.ErrUnsupported, e.Name())
	}
	return bench.OnLoopback(p.Container), nil
}

// Path implements bench.Addresser.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	return netpath.Of(ctx, e, c, p, "")
}
