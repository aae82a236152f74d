package containerd

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/netpath"
)

// Address implements bench.Addresser. On the host's network a port is the host's
// own.
func (e *Engine) Address(_ context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.own(c)
	switch {
	case err != nil:
		return netip.AddrPort{}, err
	case own.spec.Network == "host":
		return bench.OnLoopback(p.Container), nil
	case !own.address.IsValid():
		return netip.AddrPort{}, fmt.Errorf("%w: %s: a container without a network has no address", bench.ErrUnsupported, e.Name())
	}
	return netip.AddrPortFrom(own.address, p.Container), nil
}

// Path implements bench.Addresser.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	own, err := e.own(c)
	if err != nil {
		return nil, err
	}
	return netpath.Of(ctx, e, c, p, own.spec.Reach)
}
