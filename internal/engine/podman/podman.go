// Package podman drives Podman through its REST API (libpod) on a Unix socket.
// Podman has no daemon. If no service answers, the engine starts one, `podman system service`, and
// ends it when the engine is closed. A service makes all its containers with one OCI runtime, so
// each further runtime needs a service of its own.
//
// If a Spec leaves something open, Podman's own default applies: its runtime, storage driver,
// seccomp profile, log driver, limit of processes. The network is the exception: it is none unless
// the Spec says otherwise.
package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// Config says which Podman to drive.
type Config struct {
	Name   string         // of the instance; part of names, so only characters of a run's ID
	Run    string         // ID of the run
	Dir    string         // directory of the run, for data
	Images *image.Library // where images come from
	// Host is the service's socket, such as "unix:///run/podman/podman.sock". Empty means
	// CONTAINER_HOST, or else the user's usual socket. If no service answers on the usual socket,
	// the engine starts one.
	Host string
}

// Engine is one Podman, of root or of an ordinary user.
type Engine struct {
	cfg    Config
	prefix string // of the names of containers

	number atomic.Int64 // of the last container
	data   *datadir.Manager

	macvlan netdev.Macvlan

	mu      sync.Mutex         // held while a client is opened
	clients map[string]*client // by runtime; "" is the default

	buildTool atomic.Pointer[string] // what builds images; nil until it was asked
	buildCut  atomic.Bool            // the last build did not end by itself

	run    owned.Run
	images owned.Loader
}

// New returns an engine. It touches nothing until the engine is used.
func New(cfg Config) *Engine {
	run := owned.Run{ID: cfg.Run, Engine: cfg.Name}
	return &Engine{
		cfg:     cfg,
		run:     run,
		prefix:  "tare-" + run.Prefix(),
		data:    datadir.New(cfg.Run, cfg.Name, cfg.Dir),
		clients: map[string]*client{},
		images:  owned.Loader{Run: run, Library: cfg.Images, Fetch: "podman pull"},
	}
}

// Name is the name of this instance.
func (e *Engine) Name() string { return e.cfg.Name }

// client returns the client of a service that makes containers with a runtime. If necessary it
// starts the service.
func (e *Engine) client(ctx context.Context, runtime string) (*client, error) {
	if err := errors.Join(bench.ValidRunID(e.cfg.Name), bench.ValidRunID(e.cfg.Run)); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.opened(ctx, "")
	if err != nil || runtime == "" || runtime == c.Host.OCIRuntime.Name {
		return c, err
	}
	if e.host() != "" {
		return nil, e.unsupported("runtime %q: the service at %s makes containers with %s: name a service that uses this "+
			"runtime", runtime, e.host(), c.Host.OCIRuntime.Name)
	}
	if strings.HasPrefix(runtime, "-") || strings.Contains(runtime, "/") {
		return nil, e.unsupported("runtime %q: use a name that stands in containers.conf", runtime)
	}
	return e.opened(ctx, runtime)
}

// opened returns the client for a runtime, and opens it on first use.
func (e *Engine) opened(ctx context.Context, runtime string) (*client, error) {
	if c := e.clients[runtime]; c != nil {
		return c, nil
	}
	c, err := e.open(ctx, runtime)
	if err != nil {
		return nil, err
	}
	e.clients[runtime] = c
	return c, nil
}

// Prepare makes the network and loads the image if Podman lacks them, and leaves a connection open
// for Create.
func (e *Engine) Prepare(ctx context.Context, spec bench.Spec) error {
	c, err := e.client(ctx, spec.Runtime)
	if err != nil {
		return err
	}
	if err := errors.Join(c.ensureService(ctx), e.check(ctx, c, spec), c.killMonitors()); err != nil {
		return err
	}
	if spec.Network == "macvlan" {
		if err := e.openMacvlan(ctx, c); err != nil {
			return err
		}
	}
	if err := e.cfg.Images.CheckProgram(ctx, spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	if err := e.images.Check(ctx, c, spec.Image); err != nil {
		return err
	}
	return c.failed("prepare", e.data.Prepare(spec))
}

// Close removes the network that Prepare made and the images that it loaded, and ends the services
// that the engine started.
func (e *Engine) Close(ctx context.Context) error {
	images := func(name string) error {
		c, err := e.client(ctx, "")
		if err != nil {
			return err
		}
		return c.removeImage(ctx, name)
	}
	return errors.Join(e.data.Close(), os.RemoveAll(e.seccompFile()), e.closeNetwork(ctx),
		e.images.Close(images), e.closeClients(ctx))
}

// closeClients closes every client.
func (e *Engine) closeClients(ctx context.Context) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.clients {
		err = errors.Join(err, c.close(ctx))
	}
	clear(e.clients)
	return err
}

func (e *Engine) unsupported(format string, args ...any) error {
	return e.run.Unsupported(format, args...)
}
