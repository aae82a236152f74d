// Package docker drives a Docker Engine, or one that speaks its API, through
// its client library. Each method of a container is one API call over a
// connection that is kept open.
//
// If a Spec leaves something open, the engine's own default applies: its runtime, storage driver,
// seccomp profile and log driver are what its users pay for. The network is the exception: it is
// none unless the Spec says otherwise.
//
// There are no checkpoints. An experimental engine (20.10) can restore one only some time later,
// when its containerd has dropped the record of the checkpoint. Until then restoring fails with
// "already exists".
package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// Config says which engine to drive.
type Config struct {
	Name   string         // of the instance; part of names, so only characters of a run's ID
	Run    string         // ID of the run
	Dir    string         // directory of the run; only data is put there
	Images *image.Library // where images come from
	Host   string         // such as "unix:///run/docker.sock"; empty = DOCKER_HOST, the context in use, or the default
}

// Engine is a Docker Engine.
type Engine struct {
	cfg       Config
	client    *client.Client
	clientErr error  // why there is no client
	prefix    string // of the names of containers

	number    atomic.Int64 // of the last container
	manifests atomic.Bool  // the engine has containerd's image store, whose image IDs are digests of manifests
	data      *datadir.Manager

	macvlan netdev.Macvlan

	run    owned.Run
	images owned.Loader

	mu      sync.Mutex
	info    *system.Info    // nil until the first call
	volumes map[string]bool // names of volumes that outlive their containers

	buildTools map[string]buildTool // by what was asked for
	buildCut   atomic.Bool          // the last build did not end by itself
}

// New returns an engine. It touches nothing until the engine is used.
func New(cfg Config) *Engine {
	run := owned.Run{ID: cfg.Run, Engine: cfg.Name}
	e := &Engine{
		cfg:        cfg,
		run:        run,
		prefix:     "tare-" + run.Prefix(),
		data:       datadir.New(cfg.Run, cfg.Name, cfg.Dir),
		volumes:    map[string]bool{},
		buildTools: map[string]buildTool{},
		images:     owned.Loader{Run: run, Library: cfg.Images, Fetch: "docker pull"},
	}
	options := []client.Opt{client.FromEnv, client.WithUserAgent("tare")}
	host, err := cfg.Host, error(nil)
	if host == "" {
		host, err = hostAddress()
	}
	if host != "" {
		options = append(options, client.WithHost(host))
	}
	options = append(options, client.WithDialContext(e.dial)) // last, because other options set a dialer of their own
	if e.client, e.clientErr = client.New(options...); e.clientErr == nil && err != nil {
		e.clientErr = fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	if e.clientErr != nil {
		e.clientErr = fmt.Errorf("%s: %w", cfg.Name, e.clientErr)
	}
	return e
}

// Name is the name of this instance.
func (e *Engine) Name() string { return e.cfg.Name }

// ask returns what the engine says about itself. It asks once.
func (e *Engine) ask(ctx context.Context) (*system.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.info != nil {
		return e.info, nil
	}
	if err := errors.Join(bench.ValidRunID(e.cfg.Name), bench.ValidRunID(e.cfg.Run)); err != nil {
		return nil, err
	}
	if err := e.reach(ctx); err != nil {
		return nil, err
	}
	answer, err := e.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, e.failed("info", err)
	}
	e.info = &answer.Info
	e.manifests.Store(slices.Contains(answer.Info.DriverStatus, [2]string{"driver-type", "io.containerd.snapshotter.v1"}))
	return e.info, nil
}

// root is the directory in which the engine keeps what it has; empty before it was asked.
func (e *Engine) root() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.info == nil {
		return ""
	}
	return e.info.DockerRootDir
}

// Prepare makes the network and loads the image if the engine lacks them, and leaves a connection
// open for Create.
func (e *Engine) Prepare(ctx context.Context, spec bench.Spec) error {
	info, err := e.ask(ctx)
	if err != nil {
		return err
	}
	if err := e.check(ctx, info, spec); err != nil {
		return err
	}
	if _, err := e.modeOf(ctx, spec); err != nil {
		return err
	}
	if err := e.cfg.Images.CheckProgram(ctx, spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	if err := e.images.Check(ctx, store{e}, spec.Image); err != nil {
		return err
	}
	return e.failed("prepare", e.data.Prepare(spec))
}

// Close removes the network that Prepare made and the images that it loaded.
func (e *Engine) Close(ctx context.Context) error {
	if e.clientErr != nil {
		return nil // nothing was made
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	err := errors.Join(e.data.Close(), e.macvlan.Close(func() error { return e.removeNetwork(ctx, e.macvlanName()) }))
	err = errors.Join(err, e.images.Close(func(name string) error { return e.removeImage(ctx, name) }))
	for name := range e.volumes {
		err = errors.Join(err, e.removeVolumeOf(ctx, e.cfg.Run, name))
	}
	clear(e.volumes)
	return errors.Join(err, e.client.Close())
}

// failed adds to an error which call of this engine failed.
func (e *Engine) failed(call string, err error) error {
	return e.run.CallError(call, err)
}

// isNotFound reports whether the engine says that there is no such object.
func isNotFound(err error) bool { return errdefs.IsNotFound(err) }
