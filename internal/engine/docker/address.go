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

// Address asks the engine, which assigns a container's address and host ports when it starts the
// container.
func (e *Engine) Address(ctx context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.containerOf(c)
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
	if err != nil && hasExited(answer.Container.State) {
		err = bench.ErrEnded
	}
	if err != nil {
		return netip.AddrPort{}, own.failed(fmt.Sprintf("address of port %d of", p.Container), err)
	}
	return address, nil
}

// hasExited reports whether the process of a container has run and ended.
func hasExited(s *container.State) bool {
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
		return netip.AddrPort{}, fmt.Errorf("%w: the engine has not published this port", bench.ErrUnsupported)
	}
	for _, at := range s.Networks {
		if at != nil && at.IPAddress.IsValid() && !at.IPAddress.IsUnspecified() {
			return netip.AddrPortFrom(at.IPAddress, p.Container), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("%w: the container has no address", bench.ErrUnsupported)
}

// Path reads the path to the port from the kernel, if the engine runs on the same one.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return nil, err
	}
	return netpath.PathTo(ctx, e, c, p, own.spec.Reach)
}

// checkReach refuses ways to reach the containers that do not work from this host, and a network
// that would not be what its name says.
func (e *Engine) checkReach(info *system.Info, spec bench.Spec) error {
	switch {
	case hasOption(info, "rootless") && spec.Network == "host":
		return e.run.Unsupported("network host: for a rootless engine this is not the host's network: use --network " +
			"bridge, or published if the container has ports")
	case len(spec.Ports) == 0:
		return nil
	case !strings.HasPrefix(e.client.DaemonHost(), "unix://"):
		return e.run.Unsupported("ports: tare can reach them only if the engine runs on this host, and it runs at %s",
			e.client.DaemonHost())
	case hasOption(info, "rootless") && spec.Network == "bridge" && spec.Reach == "":
		return e.run.Unsupported("ports on a bridge: a rootless engine's bridge is in a network namespace that the host " +
			"cannot reach: use --network published or peer")
	}
	return nil
}
