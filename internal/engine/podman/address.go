package podman

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// A networking is the part of Podman's answer about a container's network that tare uses.
type networking struct {
	Ports map[string][]struct { // by "80/tcp"
		HostPort string
	}
	Networks map[string]struct { // by name
		IPAddress string
	}
}

// Address asks Podman, which gives a container its address and its ports of the
// host when it makes its network: with Start, or Attach before that.
func (e *Engine) Address(ctx context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if own.spec.Network == "host" {
		return bench.OnLoopback(p.Container), nil
	}
	got, err := own.inspect(ctx)
	if err != nil {
		return netip.AddrPort{}, own.failed("inspect", err)
	}
	address, err := got.NetworkSettings.address(own.spec.Reach, p)
	if err != nil && (got.State.Status == "exited" || got.State.Status == "stopped") {
		err = bench.ErrEnded
	}
	if err != nil {
		return netip.AddrPort{}, own.failed(fmt.Sprintf("address of port %d of", p.Container), err)
	}
	return address, nil
}

func (n networking) address(reach string, p bench.Port) (netip.AddrPort, error) {
	if reach == bench.ReachPublished {
		for _, outside := range n.Ports[fmt.Sprintf("%d/%s", p.Container, p.Protocol)] {
			if number, err := strconv.ParseUint(outside.HostPort, 10, 16); err == nil && number > 0 {
				return netip.AddrPortFrom(p.OnHost(), uint16(number)), nil
			}
		}
		return netip.AddrPort{}, fmt.Errorf("%w: Podman has not published this port", bench.ErrUnsupported)
	}
	for _, at := range n.Networks {
		if address, err := netip.ParseAddr(at.IPAddress); err == nil {
			return netip.AddrPortFrom(address, p.Container), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("%w: the container has no address", bench.ErrUnsupported)
}

// Path reads the path to the port from the kernel.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return nil, err
	}
	return netpath.PathTo(ctx, e, c, p, own.spec.Reach)
}
