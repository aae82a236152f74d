// Package floor isolates a process with the kernel alone, without an engine. It is the least that
// any engine on this kernel can cost.
//
// A container gets mount, PID, UTS, IPC, cgroup and, unless it shares the
// host's, network namespaces; a root of its own, an overlay over the unpacked
// image, with /proc (read-only unless privileged) and a small /dev; the
// capabilities that Docker leaves by default; and a cgroup below /tare/RUN.
// There is no seccomp filter. At the end of Create, the agent's task "init" has set this up inside,
// and waits for the one byte that makes it execute the program.
//
// An ordinary user's containers get a user namespace too, in which the user is
// root, and no cgroup unless one was delegated. If the kernel does not let a user mount an overlay,
// each container gets a copy of the image. In a user namespace that a Spec asks for, every user
// except 0 is nobody: tare measures the namespace, not a mapping.
//
// Mounts exist in the container's namespace only and vanish with it. After a crash, tare finds a
// container by its directory <run's directory>/floor-*, by its cgroup, and by the name of the file
// system at its /dev.
package floor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netdev"
)

// Config is what an Engine needs. All fields are required.
type Config struct {
	Name   string // of the instance
	Run    string // the run's ID
	Dir    string // the run's private directory, <state>/runs/<Run>; exists
	Images *image.Library
}

// An Engine makes containers.
type Engine struct {
	config Config
	prefix string // of the IDs of this engine's containers
	count  atomic.Int64
	data   *datadir.Manager

	mu       sync.Mutex
	warmedUp bool // Prepare has made a container successfully

	network netdev.Network

	copies atomic.Bool // the kernel refuses overlays: copy the image instead

	groups func() (*cgroup.Hierarchy, error)
}

// New returns the engine.
func New(c Config) *Engine {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, since Go 1.24
	return &Engine{
		config: c,
		// A resumed run has the same ID. The engine's random ID keeps their containers apart.
		prefix: idPrefix + hex.EncodeToString(b[:]),
		data:   datadir.New(c.Run, c.Name, c.Dir),
		groups: sync.OnceValues(groups),

		network: netdev.Network{Run: c.Run, Driver: c.Name},
	}
}

// groups returns the hierarchy for the containers' groups. The error wraps bench.ErrUnsupported if
// this user cannot make groups.
func groups() (*cgroup.Hierarchy, error) {
	h, err := cgroup.Detect("/")
	if err == nil {
		err = h.Writable()
	}
	if errors.Is(err, cgroup.ErrNone) || errors.Is(err, cgroup.ErrDelegation) {
		err = fmt.Errorf("%w: %w", bench.ErrUnsupported, err)
	}
	return h, err
}

// Name implements bench.Engine.
func (e *Engine) Name() string { return e.config.Name }

// InProcess implements bench.InProcessEngine.
func (e *Engine) InProcess() {}

// Probe implements bench.Engine.
func (e *Engine) Probe(ctx context.Context) (bench.EngineInfo, error) {
	info := bench.EngineInfo{Name: e.config.Name, Driver: "floor"}
	if err := ctx.Err(); err != nil {
		return info, err
	}
	if err := namespacesWork(); err != nil {
		return info, fmt.Errorf("%s: %w", e.config.Name, err)
	}
	user, group := "no", ""
	if isUnprivileged() {
		user = "yes"
	}
	if h, err := e.groups(); err == nil {
		group = string(h.Version())
	} else {
		group = "none: " + err.Error()
	}
	info.Facts = []bench.Label{
		{Key: "namespaces", Value: "mount pid uts ipc net cgroup"},
		{Key: "user namespace", Value: user},
		{Key: "cgroup", Value: group},
	}
	return info, nil
}

// isUnprivileged reports whether tare runs without the privileges of root.
func isUnprivileged() bool { return os.Geteuid() != 0 }

// namespacesWork tries to make the namespaces. It executes a program that does not exist: the
// kernel looks for the program only after it has made the namespaces, and nothing runs.
func namespacesWork() error {
	attr := &os.ProcAttr{Sys: namespaces("none", isUnprivileged())}
	p, err := os.StartProcess("/proc/self/no-such-program", []string{"none"}, attr)
	if err == nil {
		return errors.Join(errors.New("a file that cannot exist was executed"), p.Kill())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, refusal := range []error{fs.ErrPermission, syscall.ENOSPC, syscall.EINVAL, syscall.EUSERS, syscall.ENOSYS} {
		if errors.Is(err, refusal) {
			return fmt.Errorf(
				"%w: the kernel refuses new namespaces (%w); run tare as root, or allow user namespaces in /proc/sys/user and "+
					"/proc/sys/kernel", bench.ErrUnsupported, err,
			)
		}
	}
	return fmt.Errorf("make namespaces: %w", err)
}

// Prepare implements bench.Engine. It unpacks the image and makes a first container, so that what
// the kernel refuses is known before a trial.
func (e *Engine) Prepare(ctx context.Context, spec bench.Spec) error {
	if _, err := e.plan(ctx, spec); err != nil {
		return err
	}
	if err := e.data.Prepare(spec); err != nil {
		return fmt.Errorf("%s: %w", e.config.Name, err)
	}
	if spec.Network == "bridge" {
		if err := e.network.Open(); err != nil {
			return fmt.Errorf("%s: %w", e.config.Name, err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.warmedUp {
		return nil
	}
	c, err := e.Create(ctx, bench.Spec{})
	if errors.Is(err, fs.ErrPermission) && isUnprivileged() {
		return fmt.Errorf("%w: %w; this system restricts user namespaces: run tare as root", bench.ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	e.warmedUp = true
	return c.Remove(context.WithoutCancel(ctx))
}

// Create implements bench.Engine.
func (e *Engine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	p, err := e.plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	c, err := e.create(ctx, p)
	var refused *stepError
	if errors.As(err, &refused) && refused.step == agent.StepOverlay && isUnprivileged() && !e.copies.Swap(true) {
		c, err = e.create(ctx, p)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.config.Name, err)
	}
	return c, nil
}

// Close implements bench.Engine. The containers have been removed by now. Only the run's group is
// left, which other engines may still use.
func (e *Engine) Close(context.Context) error {
	closed := errors.Join(e.network.Close(), e.data.Close())
	h, err := e.groups()
	if err != nil {
		return closed // no groups were made
	}
	return errors.Join(closed, h.Prune(runGroup(e.config.Run)))
}

// Cgroup implements bench.Cgrouper.
func (e *Engine) Cgroup(_ context.Context, c bench.Container) (string, error) {
	own, ok := c.(*container)
	if !ok {
		return "", fmt.Errorf("%s: container %s belongs to another engine", e.config.Name, c.ID())
	}
	if own.groups == nil {
		_, err := e.groups()
		return "", fmt.Errorf("%s: %w", e.config.Name, err)
	}
	return own.group, nil
}

// A plan is what a Spec means on this machine.
type plan struct {
	spec   bench.Spec
	argv   []string
	env    []string
	dir    string
	image  string // digest
	rootfs string // unpacked image
	init   string // file of the agent
	groups *cgroup.Hierarchy
	userNS bool
}

func (e *Engine) plan(ctx context.Context, spec bench.Spec) (plan, error) {
	p, err := e.resolve(ctx, spec)
	if err != nil {
		return plan{}, fmt.Errorf("%s: %w", e.config.Name, err)
	}
	return p, nil
}

func (e *Engine) resolve(ctx context.Context, spec bench.Spec) (p plan, err error) {
	if err := check(spec); err != nil {
		return plan{}, err
	}
	if err := ctx.Err(); err != nil {
		return plan{}, err
	}
	p = plan{spec: spec, dir: spec.Dir, userNS: spec.Security.UserNS || isUnprivileged()}
	if p.groups, err = e.groups(); err != nil {
		if spec.Limits != (bench.Limits{}) || !errors.Is(err, bench.ErrUnsupported) {
			return plan{}, fmt.Errorf("limits: %w", err)
		}
		p.groups = nil
	}
	self, err := e.config.Images.Resolve(ctx, image.Agent)
	if err != nil {
		return plan{}, err
	}
	selfRoot, err := self.Rootfs(ctx)
	if err != nil {
		return plan{}, err
	}
	p.init = filepath.Join(selfRoot, agent.Path)
	return p, e.resolveImage(ctx, &p)
}

// resolveImage fills in what comes from the Spec's own image.
func (e *Engine) resolveImage(ctx context.Context, p *plan) error {
	img, err := e.config.Images.Resolve(ctx, p.spec.Image)
	if errors.Is(err, image.ErrForeign) {
		return fmt.Errorf("%w: %w; floor has no image store: use docker://REF, oci:DIR, tar:FILE or host:PROGRAM",
			bench.ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	if user := img.User(); user != "" && user != "0" && user != "root" {
		return fmt.Errorf("%w: image %s asks for user %q: floor runs programs only as root: use another engine",
			bench.ErrUnsupported, img.Ref(), user)
	}
	if p.argv, err = img.Argv(p.spec); err != nil {
		return err
	}
	if p.dir == "" {
		p.dir = img.WorkingDir()
	}
	p.image, p.env = img.Digest(), image.MergeEnv(img.Env(), p.spec.Env)
	p.rootfs, err = img.Rootfs(ctx)
	return err
}

// check refuses the parts of a Spec that the kernel alone cannot provide.
func check(spec bench.Spec) error {
	if err := errors.Join(bench.CheckNetwork(spec, "none", "host", "bridge"), netdev.Check(spec)); err != nil {
		return err
	}
	var what string
	switch {
	case spec.Storage != "" && spec.Storage != "layer" && spec.Storage != "bind" && spec.Storage != "tmpfs":
		what = fmt.Sprintf("storage %q: floor has no volumes: use layer, bind or tmpfs", spec.Storage)
	case datadir.Check(spec) != nil:
		return datadir.Check(spec)
	case spec.Runtime != "" || spec.Snapshotter != "":
		what = "floor has no runtime and no snapshotter: leave them out"
	case spec.Security.Seccomp != "" && spec.Security.Seccomp != "unconfined":
		what = fmt.Sprintf("seccomp %q: floor has no filter: use unconfined or another engine", spec.Security.Seccomp)
	}
	for _, m := range spec.Mounts {
		if m.Type != "bind" && m.Type != "tmpfs" {
			what = fmt.Sprintf("mount type %q: use bind or tmpfs", m.Type)
		}
		if !filepath.IsAbs(m.Target) || m.Type == "bind" && !filepath.IsAbs(m.Source) {
			what = fmt.Sprintf("mount of %q at %q: use absolute paths", m.Source, m.Target)
		}
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", bench.ErrUnsupported, what)
}
