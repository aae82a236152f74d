// Package containerd drives containerd through its own Go client, as nerdctl and ctr do. The client
// library decides which calls are made, and in which order.
//
// If a Spec leaves something open, the container is what users of containerd get: the client
// library's default mounts, capabilities, masked paths and devices. Three things are as in nerdctl
// and Docker and not as in ctr: the seccomp profile is on, a process may gain privileges, and
// resource limits of processes (rlimits) are the daemon's. The control group is below /tare.
//
// Everything is in a containerd namespace of tare's own, apart from other users' containers and
// images. Images of another namespace are copied into it.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/pkg/identifiers"
	"github.com/containerd/errdefs"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// Config says which containerd to drive, and how.
type Config struct {
	Name        string         // of the instance; part of names, so only characters of a run's ID
	Run         string         // ID of the run
	Dir         string         // existing directory of the run; FIFOs and data lie below it
	Images      *image.Library // where images come from
	Address     string         // of the socket; empty = CONTAINERD_ADDRESS, or /run/containerd/containerd.sock
	Runtime     string         // default for Specs: "runc", "crun", "io.containerd.NAME.vN"; empty = runc
	Snapshotter string         // default for Specs; empty = overlayfs
}

// Engine is a containerd.
type Engine struct {
	cfg    Config
	dir    string // below cfg.Dir, of this engine alone
	prefix string // of the IDs of containers

	number atomic.Int64 // of the last container or process
	data   *datadir.Manager

	openMu sync.Mutex
	conn   *server // nil until the engine is used

	run    owned.Run
	images owned.Images[imageKey, *unpacked]

	kit      atomic.Pointer[buildkit]     // once it was found
	bases    owned.Images[string, string] // names of images in its namespace, by reference
	buildCut atomic.Bool                  // the last build did not end by itself

	mu       sync.Mutex
	runtimes map[string]runtime // by name

	network netdev.Network
}

// namespace is the containerd namespace of everything that tare makes.
const namespace = "tare"

// New returns an engine. It touches nothing until the engine is used.
func New(cfg Config) *Engine {
	if cfg.Address == "" {
		cfg.Address = defaultAddress()
	}
	if cfg.Snapshotter == "" {
		cfg.Snapshotter = "overlayfs"
	}
	run := owned.Run{ID: cfg.Run, Engine: cfg.Name}
	return &Engine{
		cfg:      cfg,
		dir:      filepath.Join(cfg.Dir, "containerd-"+cfg.Name),
		data:     datadir.New(cfg.Run, cfg.Name, cfg.Dir),
		prefix:   run.Prefix(),
		run:      run,
		runtimes: map[string]runtime{},
		network:  netdev.Network{Run: cfg.Run, Driver: cfg.Name},
	}
}

// Name is the name of this instance.
func (e *Engine) Name() string { return e.cfg.Name }

// next returns an ID that is new in this engine.
func (e *Engine) next() string { return fmt.Sprint(e.prefix, e.number.Add(1)) }

// server returns the connection to containerd. Only success is cached: after a failure the next
// call tries again.
func (e *Engine) server(ctx context.Context) (*server, error) {
	e.openMu.Lock()
	defer e.openMu.Unlock()
	if e.conn != nil {
		return e.conn, nil
	}
	if err := errors.Join(bench.ValidRunID(e.cfg.Name), bench.ValidRunID(e.cfg.Run),
		identifiers.Validate(e.prefix+"999999")); err != nil {
		return nil, err
	}
	s, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.setUpHost(s); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	e.conn = s
	return s, nil
}

// setUpHost makes what the engine needs on this host.
func (e *Engine) setUpHost(s *server) error {
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return err
	}
	// Runtimes create missing parent groups. They would fail if another run, when it ends, removed
	// one of these meanwhile.
	return s.groups.CreateEverywhere(groupsOf(e.cfg.Run))
}

// Prepare makes the bridge and loads and unpacks the image, each on first use, and leaves a
// connection open for Create.
func (e *Engine) Prepare(ctx context.Context, spec bench.Spec) error {
	s, err := e.server(ctx)
	if err != nil {
		return err
	}
	if _, err := e.check(s, spec); err != nil {
		return err
	}
	if spec.Network == "bridge" {
		if err := e.network.Open(); err != nil {
			return err
		}
	}
	if err := e.cfg.Images.CheckProgram(ctx, spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	i, err := e.imageOf(ctx, s, spec)
	if err != nil {
		return err
	}
	if _, err := s.client.ImageService().Get(ctx, i.image.Name()); err != nil {
		e.images.Forget(i.key) // the next one loads it again
		return e.failed("find image "+i.image.Name(), err)
	}
	if err := e.prepareBase(ctx, s, spec.Image); err != nil {
		return err
	}
	return e.failed("prepare", e.data.Prepare(spec))
}

// Close removes the images that Prepare loaded, what builds have left, and also tare's namespace if no
// other run has objects in it.
func (e *Engine) Close(ctx context.Context) error {
	e.openMu.Lock()
	s := e.conn
	e.conn = nil
	e.openMu.Unlock()
	if s == nil {
		return nil // nothing was made
	}
	images := func(name string) error { return e.removeImage(ctx, s, name) }
	return errors.Join(
		e.data.Close(), e.closeBuilder(ctx, s), e.images.Close(images), e.network.Close(), e.deleteNamespace(ctx, s),
		s.groups.Prune(groupsOf(e.cfg.Run)), os.RemoveAll(e.dir), s.client.Close(),
	)
}

// deleteNamespace deletes tare's namespace if it is empty. Unused objects count until containerd has
// collected them as garbage.
func (e *Engine) deleteNamespace(ctx context.Context, s *server) error {
	err := s.client.NamespaceService().Delete(ctx, namespace)
	if errdefs.IsFailedPrecondition(err) {
		if err := s.collect(ctx); err != nil {
			return e.failed("collect garbage", err)
		}
		err = s.client.NamespaceService().Delete(ctx, namespace)
	}
	if err == nil || isNotFound(err) || errdefs.IsFailedPrecondition(err) {
		return nil
	}
	return e.failed("delete namespace "+namespace, err)
}

// collect makes containerd collect its garbage, and returns when that is done. Ending a lease
// synchronously has this effect.
func (s *server) collect(ctx context.Context) error {
	service := s.client.LeasesService()
	l, err := service.Create(ctx, leases.WithRandomID(), leases.WithExpiration(time.Minute))
	if err != nil {
		return err
	}
	return service.Delete(ctx, l, leases.SynchronousDelete)
}

// groupsOf is the control group that contains the groups of a run.
func groupsOf(run string) string { return path.Join("/tare", run) }

// groupOf is the control group of one container.
func groupOf(run, id string) string { return groupsOf(run) + "/" + id }

// failed adds to an error which call of this engine failed.
func (e *Engine) failed(call string, err error) error {
	return e.run.CallError(call, err)
}

// isNotFound reports whether containerd says that there is no such object.
func isNotFound(err error) bool { return errdefs.IsNotFound(err) }
