package podman

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// A client talks to one service.
type client struct {
	name       string // of the engine, for errors
	http       http.Client
	socket     string              // on which the service answers
	ownService *service            // nil if tare did not start the service
	info                           // what the service says about itself
	rlimits    []specs.POSIXRlimit // for every container; nil means Podman's defaults

	groups    *cgroup.Hierarchy // of this machine
	groupsErr error             // why groups could not be opened

	mu              sync.Mutex
	monitorsPending map[string]bool // containers that may have left monitors behind
}

func newClient(name, socket string, own *service) *client {
	c := &client{name: name, socket: socket, ownService: own, monitorsPending: map[string]bool{}}
	c.groups, c.groupsErr = cgroup.Detect("/")
	c.http.Transport = transport(socket)
	return c
}

// open finds a service, or starts one, and reads its version and set-up.
func (e *Engine) open(ctx context.Context, runtime string) (*client, error) {
	var own *service
	socket, err := "", fmt.Errorf("%w with the runtime %s", errNoService, runtime)
	if runtime == "" {
		socket, err = e.find(ctx)
	}
	if errors.Is(err, errNoService) {
		if own, err = e.newService(runtime, err); err == nil {
			socket = own.socket
		}
	}
	if err != nil {
		return nil, err
	}
	c := newClient(e.cfg.Name, socket, own)
	if err := c.complete(ctx, runtime); err != nil {
		return nil, errors.Join(err, c.close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// complete starts the service, if it is one that tare runs, and reads what a new client needs to know.
func (c *client) complete(ctx context.Context, runtime string) error {
	err := c.ownService.ensureRunning(ctx, 0)
	if runtime != "" && errors.Is(err, errEnded) {
		return fmt.Errorf("%w: %s: runtime %q not found: install it and add it to [engine.runtimes] in "+
			"containers.conf: %v",
			bench.ErrUnsupported, c.name, runtime, err)
	}
	if err != nil {
		return c.failed("start a service", err)
	}
	if err := c.get(ctx, "/info", &c.info); err != nil {
		return c.failed("info", err)
	}
	c.rlimits = c.settableRlimits(ctx)
	return nil
}

// ensureService starts a service of tare's own again that does not run.
func (c *client) ensureService(ctx context.Context) error {
	return c.failed("start the service again", c.ownService.ensureRunning(ctx, 0))
}

// close ends the service if tare started it.
func (c *client) close(ctx context.Context) error {
	c.http.CloseIdleConnections()
	return errors.Join(c.killMonitors(), c.ownService.close(ctx))
}

// failed adds to an error which call failed.
func (c *client) failed(call string, err error) error {
	return owned.Run{Engine: c.name}.CallError(call, err)
}

// withClient calls do with the default client, and closes the client afterwards if visit opened it.
func (e *Engine) withClient(ctx context.Context, do func(c *client) error) error {
	e.mu.Lock()
	known := e.clients[""] != nil
	e.mu.Unlock()
	c, err := e.client(ctx, "")
	if err == nil {
		err = do(c)
	}
	if !known {
		err = errors.Join(err, e.closeClients(context.WithoutCancel(ctx)))
	}
	return err
}

// Restart restarts the services that tare started, and returns when they answer. Running containers
// survive a restart; connections attached to them do not.
func (e *Engine) Restart(ctx context.Context) error {
	if _, err := e.client(ctx, ""); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.clients {
		if c.ownService == nil {
			return fmt.Errorf("%w: restart of %s: tare did not start this service: restart it with a command hook",
				bench.ErrUnsupported, c.name)
		}
		c.ownService.down(ctx)
		if err := c.ensureService(ctx); err != nil {
			return err
		}
	}
	return nil
}
