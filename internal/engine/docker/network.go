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
