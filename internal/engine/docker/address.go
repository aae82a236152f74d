package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/netpath"
)

// Address asks the engine, which gives a container its address and its ports of
// the host when it starts it.
func (e *Engine) Address(ctx context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.mine(c)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if own.spec.Network == "host" {
		return bench.OnLoopback(p.Container), nil
	}
	answer, err := e.client.ContainerInspect(ctx, own.id, client.ContainerInspectOptions{})
	if err != nil {
		return netip.AddrPort{}, own.failed("inspect", err)
	}
	if answer.Container.NetworkSettings == nil {
		return netip.AddrPort{}, own.failed("inspect", errors.New("the engine's answer lacks NetworkSettings"))
	}
	address, err := addressIn(answer.Container.NetworkSettings, own.spec.Reach, p)
	if err != nil {
		return netip.AddrPort{}, own.failed(fmt.Sprintf("address of port %d of", p.Container), err)
	}
	return address, nil
}

func addressIn(s *container.NetworkSettings, reach string, p bench.Port) (netip.AddrPort, error) {
	if reach == bench.ReachPublished {
		port, _ := network.PortFrom(p.Container, network.IPProtocol(p.Protocol))
		for _, outside := range s.Ports[port] {
			if number, err := strconv.ParseUint(outside.HostPort, 10, 16); err == nil && number > 0 {
				return netip.AddrPortFrom(p.OnHost(), uint16(number)), nil
			}
		}
		return netip.AddrPort{}, fmt.Errorf("%w: the engine has not published it", bench.ErrUnsupported)
	}
	for _, at := range s.Networks {
		if at != nil && at.IPAddress.IsValid() && !at.IPAddress.IsUnspecified() {
			return netip.AddrPortFrom(at.IPAddress, p.Container), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("%w: the container has no address", bench.ErrUnsupported)
}

// Path reads it from the kernel, if that is the engine's.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	own, err := e.mine(c)
	if err != nil {
		return nil, err
	}
	return netpath.Of(ctx, e, c, p, own.spec.Reach)
}
