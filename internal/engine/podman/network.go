package podman

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/netdev"
	"github.com/tare-bench/tare/internal/kernel/netpath"
)

// driver is this package's mark on the devices that it makes.
const driver = "podman"

// checkNetwork reports which part of a Spec's network this Podman does not support.
func (e *Engine) checkNetwork(c *client, spec bench.Spec) error {
	err := bench.CheckNetwork(spec, "none", "host", "bridge", "macvlan", "slirp4netns", "pasta")
	rootless := c.Host.Security.Rootless
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	case spec.Network == "slirp4netns" && c.Host.Slirp.Executable == "":
		return e.unsupported("network slirp4netns: Podman cannot find the program: install the package slirp4netns")
	case spec.Network == "pasta" && !rootless:
		return e.unsupported("network pasta: Podman supports it for ordinary users only: run tare without root, or use " +
			"--network slirp4netns or published")
	case spec.Network == "pasta" && c.olderThan(4, 4):
		return e.unsupported("network pasta: Podman %s is too old: use 4.4 or newer, and install the package passt",
			c.Version.Version)
	case spec.Network == "pasta" && c.Host.Pasta.Executable == "":
		return e.unsupported("network pasta: Podman cannot find the program: install the package passt")
	case spec.Network == "macvlan" && rootless:
		return e.unsupported("network macvlan: only root can make the interface that it needs: run tare as root")
	case spec.Network == "bridge" && rootless && spec.Reach == "" && len(spec.Ports) > 0:
		return e.unsupported("ports on a bridge: without root, Podman's bridge is in a network namespace that the host " +
			"cannot reach: use --network published or peer")
	case rootless && slices.Contains([]string{"bridge", "slirp4netns", "pasta"}, spec.Network):
		return e.checkTun(spec.Network)
	}
	return nil
}

// checkTun checks that /dev/net/tun can be opened: slirp4netns and pasta make a TAP device for an
// ordinary user's containers.
func (e *Engine) checkTun(network string) error {
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return e.unsupported("network %s: without root it needs access to /dev/net/tun: %v: run chmod 666 /dev/net/tun as "+
			"root (udev's default)", network, err)
	}
	return tun.Close()
}

// connect puts a container into the network of its project, or into the run's macvlan network. Podman
// does not provide these by itself.
func (e *Engine) connect(ctx context.Context, c *client, spec bench.Spec, r *request) error {
	if spec.Member != nil {
		return e.join(*spec.Member, r)
	}
	if spec.Network != "macvlan" {
		return nil
	}
	r.Network.Mode, r.Networks = "bridge", map[string]any{e.macvlanName(): struct{}{}}
	return e.openMacvlan(ctx, c)
}

// openMacvlan makes the run's macvlan network, once.
func (e *Engine) openMacvlan(ctx context.Context, c *client) error {
	subnet, err := netdev.Subnet()
	if err != nil {
		return e.unsupported("network macvlan: %v", err)
	}
	err = e.macvlan.Open(e.cfg.Run, driver, func(parent string) error {
		err := c.post(ctx, "/networks/create", map[string]any{
			"name": e.macvlanName(), "driver": "macvlan", "network_interface": parent,
			"labels":  map[string]string{owned.Label: e.cfg.Run},
			"subnets": []map[string]string{{"subnet": subnet.String()}},
			"options": map[string]string{"mode": "bridge"},
		}, nil)
		if err != nil {
			return fmt.Errorf("create network %s: %w", e.macvlanName(), err)
		}
		return nil
	}, func() error { return c.removeNetwork(context.WithoutCancel(ctx), e.macvlanName()) })
	return c.failed("network macvlan", err)
}

func (e *Engine) macvlanName() string { return e.prefix + "macvlan" }

// removeNetwork removes a network. It is not an error if there is none.
func (c *client) removeNetwork(ctx context.Context, name string) error {
	return c.failed("remove network "+name, c.remove(ctx, "/networks/"+url.PathEscape(name)))
}

// closeNetwork removes the network that connect made.
func (e *Engine) closeNetwork(ctx context.Context) error {
	return e.macvlan.Close(func() error {
		c, err := e.client(ctx, "")
		if err != nil {
			return err
		}
		return c.removeNetwork(ctx, e.macvlanName())
	})
}

// A network is the part of Podman's answer about a network that tare uses.
type network struct {
	Name   string            `json:"name"`
	Driver string            `json:"driver"`
	Labels map[string]string `json:"labels"`
}

func (c *client) network(ctx context.Context, name string) (n network, err error) {
	err = c.get(ctx, "/networks/"+url.PathEscape(name)+"/json", &n)
	return n, err
}

// networkOf is a container's network as a Spec names it: a named network is called by its driver.
func (c *client) networkOf(ctx context.Context, got *inspection) (string, error) {
	mode := got.HostConfig.NetworkMode
	if mode != "bridge" {
		return mode, nil
	}
	for name := range got.NetworkSettings.Networks {
		n, err := c.network(ctx, name)
		if err != nil {
			return "", err
		}
		mode = n.Driver
	}
	return mode, nil
}

// listNetworks lists the networks with a label, as list does.
func (c *client) listNetworks(ctx context.Context, label string, add func(run, kind, id string)) error {
	var all []network
	if err := c.get(ctx, "/networks/json?filters="+withLabel(label), &all); err != nil {
		return c.failed("list networks", err)
	}
	for _, n := range all {
		add(owned.RunOfLabels(n.Labels), owned.KindNetwork, n.Name)
	}
	return nil
}

// withLabel is a filter of the API for objects with a label: "KEY" or "KEY=VALUE".
func withLabel(label string) string {
	text, _ := json.Marshal(map[string][]string{"label": {label}}) // strings always have a form
	return url.QueryEscape(string(text))
}

// A networking is the part of Podman's answer about a container's network that tare uses.
type networking struct {
	Ports map[string][]struct { // by "80/tcp"
		HostIP   string `json:"HostIp"`
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
