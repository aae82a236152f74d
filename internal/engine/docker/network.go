package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// driver is this package's mark on the devices that it makes.
const driver = "docker"

// A macvlan is a network of the engine that a run has made.
type macvlan struct {
	name   string
	parent netdev.Device
}

// modeOf is the engine's name for a Spec's network. It makes the macvlan network, which the engine
// does not provide by itself.
func (e *Engine) modeOf(ctx context.Context, spec bench.Spec) (container.NetworkMode, error) {
	switch spec.Network {
	case "":
		return "none", nil
	case "macvlan":
		m, err := e.ownMacvlan(ctx)
		return container.NetworkMode(m.name), err
	}
	return container.NetworkMode(spec.Network), nil
}

// ownMacvlan returns the run's macvlan network, which it makes once.
func (e *Engine) ownMacvlan(ctx context.Context) (macvlan, error) {
	e.network.Lock()
	defer e.network.Unlock()
	if e.macvlan != nil {
		return *e.macvlan, nil
	}
	parent, err := netdev.Parent(e.cfg.Run, driver)
	if errors.Is(err, fs.ErrPermission) {
		return macvlan{}, fmt.Errorf("%w: %s: network macvlan: only root can make the interface that it needs: run "+
			"tare with sudo", bench.ErrUnsupported, e.cfg.Name)
	}
	if err != nil {
		return macvlan{}, e.failed("make an interface for a macvlan", err)
	}
	m := macvlan{e.prefix + "macvlan", parent}
	_, err = e.client.NetworkCreate(ctx, m.name, client.NetworkCreateOptions{
		Driver:  "macvlan",
		Options: map[string]string{"parent": parent.Name, "macvlan_mode": "bridge"},
		Labels:  map[string]string{owned.Label: e.cfg.Run},
	})
	if err != nil {
		return macvlan{}, errors.Join(e.failed("create network "+m.name, err), e.removeMacvlan(context.WithoutCancel(ctx), m))
	}
	e.macvlan = &m
	return m, nil
}

// removeMacvlan removes a network and the interface that it uses.
func (e *Engine) removeMacvlan(ctx context.Context, m macvlan) error {
	if err := e.removeNetwork(ctx, m.name); err != nil {
		return err
	}
	return m.parent.Remove()
}

// removeNetwork removes a network. It is not an error if there is none.
func (e *Engine) removeNetwork(ctx context.Context, id string) error {
	if _, err := e.client.NetworkRemove(ctx, id, client.NetworkRemoveOptions{}); err != nil && !gone(err) {
		return e.failed("remove network "+id, err)
	}
	return nil
}

// closeNetwork removes the network that modeOf made.
func (e *Engine) closeNetwork(ctx context.Context) error {
	e.network.Lock()
	defer e.network.Unlock()
	if e.macvlan == nil {
		return nil
	}
	if err := e.removeMacvlan(ctx, *e.macvlan); err != nil {
		return err
	}
	e.macvlan = nil
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
	if gone(err) || m.IsContainer() {
		return string(m), nil
	}
	return answer.Network.Driver, err
}
