package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// driver is this package's mark on the devices that it makes.
const driver = "docker"

// modeOf is the engine's name for a Spec's network. It makes the macvlan network, which the engine
// does not provide by itself.
func (e *Engine) modeOf(ctx context.Context, spec bench.Spec) (container.NetworkMode, error) {
	switch spec.Network {
	case "":
		return "none", nil
	case "macvlan":
		return container.NetworkMode(e.macvlanName()), e.openMacvlan(ctx)
	}
	return container.NetworkMode(spec.Network), nil
}

// openMacvlan makes the run's macvlan network, once.
func (e *Engine) openMacvlan(ctx context.Context) error {
	err := e.macvlan.Open(e.cfg.Run, driver, func(parent string) error {
		_, err := e.client.NetworkCreate(ctx, e.macvlanName(), client.NetworkCreateOptions{
			Driver:  "macvlan",
			Options: map[string]string{"parent": parent, "macvlan_mode": "bridge"},
			Labels:  map[string]string{owned.Label: e.cfg.Run},
		})
		if err != nil {
			return fmt.Errorf("create network %s: %w", e.macvlanName(), err)
		}
		return nil
	}, func() error { return e.removeNetwork(context.WithoutCancel(ctx), e.macvlanName()) })
	switch {
	case errors.Is(err, fs.ErrPermission):
		return e.run.Unsupported("network macvlan: only root can make the interface that it needs: run tare with sudo")
	case err != nil:
		return e.failed("network macvlan", err)
	}
	return nil
}

func (e *Engine) macvlanName() string { return e.prefix + "macvlan" }

// removeNetwork removes a network. It is not an error if there is none.
func (e *Engine) removeNetwork(ctx context.Context, id string) error {
	if _, err := e.client.NetworkRemove(ctx, id, client.NetworkRemoveOptions{}); err != nil && !isNotFound(err) {
		return e.failed("remove network "+id, err)
	}
	return nil
}

// networkOf is a network mode as a Spec names it: a named network is called by its driver.
func (e *Engine) networkOf(ctx context.Context, m container.NetworkMode) (string, error) {
	switch m {
	case "none", "host", "bridge":
		return string(m), nil
	case "default":
		return "bridge", nil
	}
	answer, err := e.client.NetworkInspect(ctx, string(m), client.NetworkInspectOptions{})
	if isNotFound(err) || m.IsContainer() {
		return string(m), nil
	}
	return answer.Network.Driver, err
}

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
