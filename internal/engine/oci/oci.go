// Package oci drives an OCI runtime (runc, crun, youki, gVisor's runsc and others with the same
// command line) directly, without a daemon. It makes the bundles itself and runs the runtime's
// create, start and delete.
//
// Create adds almost nothing to the runtime's command, to keep tare's own work out of the numbers.
// Prepare, which is never timed, stages the next bundle (directories, overlay mount, pipes,
// config.json), and Create uses it. The bundle of a removed container is removed by the second
// Remove, the next Prepare or Close, which are not timed either. A runtime knows nothing about
// images and layers, so unmounting and deleting them is not part of its cost.
//
// The process in a container is a child of a command that has ended. To learn at once when it
// exits, and with which status, the engine makes this process the reaper of its orphaned
// descendants (PR_SET_CHILD_SUBREAPER) on first use, for good.
package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// Config says which runtime to drive, and where.
type Config struct {
	Name   string         // of the engine; part of paths, so only characters of a run's ID
	Binary string         // name or path of the runtime; empty = Name
	Run    string         // ID of the run
	Dir    string         // existing directory of the run; its last element is the run's ID
	Images *image.Library // where images come from
}

// Engine is an OCI runtime. Its defaults: the overlay file system over the
// unpacked image; no network but loopback; the capabilities, masked paths and
// mounts of Docker; no seccomp filter; no resource limits.
type Engine struct {
	cfg Config
	dir string // below cfg.Dir, of this engine alone

	data    *datadir.Manager
	network netdev.Network

	openMu    sync.Mutex
	hostState *hostInfo // nil until the engine is used

	mu       sync.Mutex
	number   int                  // of the last bundle
	prepared []*bundle            // made by Prepare, not used yet
	retired  map[*bundle]struct{} // of deleted containers
}

// hostInfo is what the engine knows about this machine, and what it keeps open.
type hostInfo struct {
	binary  string // absolute path of the runtime
	version runtimeVersion
	dialect dialect
	null    *os.File
	groups  *cgroup.Hierarchy
}

// New returns an engine. It touches nothing until the engine is used.
func New(cfg Config) *Engine {
	if cfg.Binary == "" {
		cfg.Binary = cfg.Name
	}
	return &Engine{
		cfg: cfg, dir: filepath.Join(cfg.Dir, prefix+cfg.Name), data: datadir.New(cfg.Run, cfg.Name, cfg.Dir),
		retired: map[*bundle]struct{}{}, network: netdev.Network{Run: cfg.Run, Driver: cfg.Name},
	}
}

// prefix begins the names of the directories that engines of this package have in a run's
// directory.
const prefix = "oci-"

// Name is the name of this instance.
func (e *Engine) Name() string { return e.cfg.Name }

// hostInfo returns what the engine needs from the machine. Only success is cached: after a failure the
// next call tries again.
func (e *Engine) hostInfo(ctx context.Context) (*hostInfo, error) {
	e.openMu.Lock()
	defer e.openMu.Unlock()
	if e.hostState != nil {
		return e.hostState, nil
	}
	h, err := e.open(ctx)
	if err == nil {
		e.hostState = h
	}
	return h, err
}

// open examines the machine and makes the engine's directories.
func (e *Engine) open(ctx context.Context) (*hostInfo, error) {
	if err := errors.Join(bench.ValidRunID(e.cfg.Name), bench.ValidRunID(e.cfg.Run)); err != nil {
		return nil, err
	}
	binary, err := e.findBinary()
	if err != nil {
		return nil, err
	}
	version, err := probeVersion(ctx, binary)
	if err != nil {
		return nil, err
	}
	groups, err := cgroup.Detect("/")
	if err != nil {
		return nil, fmt.Errorf("%w: %s needs control groups: %w", bench.ErrUnsupported, e.cfg.Name, err)
	}
	// Nobody else may enter: see bundle.
	if err := os.MkdirAll(e.state(), 0o700); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the reaper of the containers' processes: %w", err)
	}
	// Runtimes create missing parent groups. They would fail if another run, when it ends, removed
	// one of these meanwhile.
	if err := groups.CreateEverywhere(groupsOf(e.cfg.Run)); err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &hostInfo{binary, version, dialectOf(version.name), null, groups}, nil
}

// findBinary returns the path of the runtime's binary, or an error that wraps bench.ErrUnsupported.
func (e *Engine) findBinary() (string, error) {
	binary, err := exec.LookPath(e.cfg.Binary)
	if err != nil {
		return "", fmt.Errorf("%w: runtime %q not found: install it: %w", bench.ErrUnsupported, e.cfg.Binary, err)
	}
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("%w: running %s without a daemon needs root: run tare with sudo", bench.ErrUnsupported,
			e.cfg.Name)
	}
	return filepath.Abs(binary)
}

// state is the runtime's own directory.
func (e *Engine) state() string { return filepath.Join(e.dir, "state") }

// Prepare makes the bridge, stages a bundle for spec, and removes the bundles of removed
// containers.
func (e *Engine) Prepare(ctx context.Context, spec bench.Spec) error {
	h, err := e.hostInfo(ctx)
	if err != nil {
		return err
	}
	if err := e.check(h, spec); err != nil {
		return err
	}
	if err := e.sweep(); err != nil {
		return err
	}
	if spec.Network == "bridge" {
		if err := e.network.Open(); err != nil {
			return err
		}
	}
	b, err := e.takeBundle(ctx, spec)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.prepared = append(e.prepared, b)
	return nil
}

// Create runs the runtime's create.
func (e *Engine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	h, err := e.hostInfo(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.check(h, spec); err != nil {
		return nil, err
	}
	b, err := e.takeBundle(ctx, spec)
	if err != nil {
		return nil, err
	}
	c := newContainer(e, h, b, spec)
	err = c.create(ctx)
	if err == nil && spec.Network == "bridge" {
		err = c.join()
	}
	if err != nil {
		return nil, errors.Join(err, c.removeUncreated(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// takeBundle returns a bundle for spec: a prepared one if there is one of that image. It rewrites
// config.json if that was made for another spec.
func (e *Engine) takeBundle(ctx context.Context, spec bench.Spec) (*bundle, error) {
	img, err := e.cfg.Images.Resolve(ctx, spec.Image)
	if errors.Is(err, image.ErrForeign) {
		return nil, fmt.Errorf(
			"%w: %s has no image store: name the image as docker://REF, oci:DIR, tar:FILE or host:PROGRAM: %w",
			bench.ErrUnsupported, e.cfg.Name, err,
		)
	}
	if err != nil {
		return nil, err
	}
	b, err := e.bundleOf(ctx, img, spec.Security.UserNS)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(b.takeData(e.data, spec), b.configure(spec)); err != nil {
		return nil, errors.Join(err, b.remove())
	}
	return b, nil
}

// bundleOf returns a prepared bundle of the image, or a new one.
func (e *Engine) bundleOf(ctx context.Context, img *image.Image, userNS bool) (*bundle, error) {
	e.mu.Lock()
	i := slices.IndexFunc(e.prepared, func(b *bundle) bool {
		return b.image.Digest() == img.Digest() && b.userNS == userNS
	})
	if i >= 0 {
		b := e.prepared[i]
		e.prepared = slices.Delete(e.prepared, i, i+1)
		e.mu.Unlock()
		return b, nil
	}
	e.mu.Unlock()
	return e.prepareBundle(ctx, img, userNS)
}

// retire leaves the bundle of a deleted container to the next sweep.
func (e *Engine) retire(b *bundle) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retired[b] = struct{}{}
}

// forget removes a bundle from the list for the next sweep.
func (e *Engine) forget(b *bundle) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.retired, b)
}

// sweep removes the bundles of removed containers. Bundles whose removal fails stay on the list.
func (e *Engine) sweep() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for b := range e.retired {
		if err := b.remove(); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(e.retired, b)
	}
	return errors.Join(errs...)
}

// Close removes everything that the engine made.
func (e *Engine) Close(ctx context.Context) error {
	err := e.sweep()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.prepared {
		err = errors.Join(err, b.remove())
	}
	e.prepared = nil
	e.closeHostInfo()
	err = errors.Join(err, e.network.Close(), removeEngine(ctx, e.cfg.Run, e.cfg.Name, e.dir), e.data.Close())
	collectOrphans()
	return err
}

// closeHostInfo closes what open opened.
func (e *Engine) closeHostInfo() {
	e.openMu.Lock()
	defer e.openMu.Unlock()
	if e.hostState != nil {
		_ = e.hostState.null.Close() // nothing is written to it
		e.hostState = nil
	}
}

// removeBundle removes the bundle of a deleted container now.
func (e *Engine) removeBundle(b *bundle) error {
	err := b.remove()
	if err == nil {
		e.forget(b)
	} else {
		e.retire(b)
	}
	return err
}
