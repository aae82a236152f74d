package containerd

import (
	"context"
	"net/netip"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

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
