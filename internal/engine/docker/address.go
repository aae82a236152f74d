package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// Address asks the engine, which gives a container its address and its ports of
// the host when it starts it.
func (e *Engine) Address(ctx context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.own(c)
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
	if err != nil && ended(answer.Container.State) {
		err = bench.ErrEnded
	}
	if err != nil {
		return netip.AddrPort{}, own.failed(fmt.Sprintf("address of port %d of", p.Container), err)
	}
	return address, nil
}

// ended reports whether the process of a container was there, and is not any more.
func ended(s *container.State) bool {
	return s != nil && (s.Status == container.StateExited || s.Status == container.StateDead)
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
	own, err := e.own(c)
	if err != nil {
		return nil, err
	}
	return netpath.Of(ctx, e, c, p, own.spec.Reach)
}

// checkReach reports by which way nobody on this host reaches the engine's
// containers, and that a network is not the one that it is called.
func (e *Engine) checkReach(info *system.Info, spec bench.Spec) error {
	var why string
	switch {
	case hasOption(info, "rootless") && spec.Network == "host":
		why = "network host: an ordinary user's engine has a network of its own for it: use --network bridge, or published where there are ports"
	case len(spec.Ports) == 0:
		return nil
	case !strings.HasPrefix(e.client.DaemonHost(), "unix://"):
		why = "ports: the engine is not on this host, but at " + e.client.DaemonHost()
	case hasOption(info, "rootless") && spec.Network == "bridge" && spec.Reach == "":
		why = "ports on a bridge: an ordinary user's lies in a network namespace of its own: use --network published or peer"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s: %s", bench.ErrUnsupported, e.cfg.Name, why)
}
