package podman

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/cgroup"
)

// A client talks to one service.
type client struct {
	name    string // of the engine, for errors
	http    http.Client
	info             // what the service says of itself
	rlimits []rlimit // that every container is to be given; nil for Podman's own

	mu     sync.Mutex
	socket string
	own    *service // nil if it is somebody else's

	retired map[string]bool // containers that may have left monitors behind

	groups    *cgroup.Hierarchy // of this machine
	groupsErr error             // why there are none to look at
}

func newClient(name, socket string) *client {
	c := &client{name: name, socket: socket, retired: map[string]bool{}}
	c.groups, c.groupsErr = cgroup.Detect("/")
	c.http.Transport = transport(c.path)
	return c
}

// open finds a service, or starts one, and asks what it is.
func (e *Engine) open(ctx context.Context, runtime string) (*client, error) {
	var socket string
	err := fmt.Errorf("%w with the runtime %s", errNoService, runtime)
	if runtime == "" {
		socket, err = e.find(ctx)
	}
	c := newClient(e.cfg.Name, socket)
	if errors.Is(err, errNoService) {
		err = e.startFor(ctx, c, runtime, err)
	}
	if err == nil {
		err = c.ask(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// startFor starts a client's service. Why says why it needs one.
func (e *Engine) startFor(ctx context.Context, c *client, runtime string, why error) error {
	binary, err := e.binary(why)
	if err != nil {
		return err
	}
	dir, err := e.serviceDir(runtime)
	if err != nil {
		return err
	}
	c.own = newService(binary, dir, runtime)
	c.socket = c.own.socket
	err = c.own.start(ctx)
	if runtime != "" && errors.Is(err, errEnded) {
		return e.refuse("no runtime %q: install it, and name it under [engine.runtimes] in containers.conf: %v", runtime, err)
	}
	if err != nil {
		return c.failed("start a service", err)
	}
	return nil
}

// ask completes a client.
func (c *client) ask(ctx context.Context) error {
	if err := c.get(ctx, "/info", &c.info); err != nil {
		return c.failed("info", err)
	}
	c.rlimits = c.affordable(ctx)
	return nil
}

// path is the socket on which the service answers.
func (c *client) path() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.socket
}

// revive starts our own service again if it has died, and reports whether it
// answers now. One that was killed this instant has a moment to be gone.
func (c *client) revive(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own != nil && c.own.dead(100*time.Millisecond) && c.own.start(ctx) == nil
}

// awake starts a service of our own again that has died.
func (c *client) awake(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == nil || !c.own.dead(0) {
		return nil
	}
	if err := c.own.start(ctx); err != nil {
		return c.failed("start the service again", err)
	}
	return nil
}

// restart restarts the service, if it is our own, and returns when it answers.
func (c *client) restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == nil {
		return fmt.Errorf("%w: %s cannot be restarted: its service is not tare's: use a hook with a command of your own", bench.ErrUnsupported, c.name)
	}
	c.own.stop(ctx)
	if err := c.own.start(ctx); err != nil {
		return c.failed("restart the service", err)
	}
	return nil
}

// close ends the service if it is our own.
func (c *client) close(ctx context.Context) error {
	c.http.CloseIdleConnections()
	err := c.tidy()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == nil {
		return err
	}
	c.own.stop(ctx)
	return errors.Join(err, c.own.remove())
}

// failed says which call failed.
func (c *client) failed(call string, err error) error {
	return fmt.Errorf("%s: %s: %w", c.name, call, err)
}

// borrow returns the default client for a single use: done closes it if it was
// opened for that.
func (e *Engine) borrow(ctx context.Context) (c *client, done func() error, err error) {
	e.mu.Lock()
	known := e.clients[""] != nil
	e.mu.Unlock()
	c, err = e.client(ctx, "")
	return c, func() error {
		if known {
			return nil
		}
		return e.shut(context.WithoutCancel(ctx))
	}, err
}

// Restart restarts the services, if they are our own, and returns when they
// answer. Containers that run survive it; who is attached to one does not.
func (e *Engine) Restart(ctx context.Context) error {
	if _, err := e.client(ctx, ""); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.clients {
		if err := c.restart(ctx); err != nil {
			return err
		}
	}
	return nil
}
