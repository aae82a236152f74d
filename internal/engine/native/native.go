// Package native is the baseline without a container: a plain process on the
// host, in a session of its own.
//
// It runs the same agent binary as the other engines, from the unpacked image, or a program of the
// host. That is the program that the Spec's image was made from ("host:PROGRAM"), in its place and
// with the libraries that it finds there, or any program if the Spec names no image. The agent may
// launch any program of such an image (see agent.Launch). It isolates
// and limits nothing, and refuses every Spec that asks for that. Its network is the host's, even if
// the Spec leaves it open. The process gets the environment of the image and of the Spec, none of
// tare's own, and TARE_RUN with the run's ID, by which Leftovers finds it.
//
// When the first process has exited, the rest of its process group is killed, as the kernel does in
// a container. A process that has left the group for a session of its own lives until Close or, if it
// works in the directory of the container's data, until Remove. So does the shared memory of those that
// worked there: System V segments, and files of /dev/shm.
//
// Pausing sends SIGSTOP to the process groups, resuming SIGCONT, as any user can do without control
// groups. The processes can notice that, and a process that has left its group is not stopped. Exec
// starts another process in a session of its own, with the same environment and directory.
//
// A process has the host's files. A workload that keeps data asks DataDir for a directory and names
// it in the process's arguments.
package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/pack"
)

// hostPath is PATH for a program of the host. A program from an image has the image's PATH.
const hostPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Config is what an Engine needs. All fields are required.
type Config struct {
	Name   string // of the instance
	Run    string // the run's ID
	Dir    string // the run's private directory; only data is put there
	Images *image.Library
}

// An Engine runs processes.
type Engine struct {
	config Config
	count  atomic.Int64
	data   *datadir.Manager

	mu        sync.Mutex
	announced []*datadir.Dir // reserved by DataDir, not made yet
}

// New returns the engine.
func New(c Config) *Engine { return &Engine{config: c, data: datadir.NewPlain(c.Run, c.Name, c.Dir)} }

// Name implements bench.Engine.
func (e *Engine) Name() string { return e.config.Name }

// InProcess implements bench.InProcessEngine.
func (e *Engine) InProcess() {}

// Probe implements bench.Engine. A process can run everywhere.
func (e *Engine) Probe(ctx context.Context) (bench.EngineInfo, error) {
	return bench.EngineInfo{Name: e.config.Name, Driver: "native"}, ctx.Err()
}

// Prepare implements bench.Engine. It unpacks the agent. If a program of the host is compared with
// its image, Prepare checks that the program has not changed since it was packed.
func (e *Engine) Prepare(ctx context.Context, spec bench.Spec) error {
	// What an image runs by itself can be a script that is only in the image. A workload that starts another program of it,
	// as that of PostgreSQL does, has that one prepared, too.
	if _, err := e.plan(ctx, spec); err != nil && (len(spec.Argv) > 0 || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	img, err := e.config.Images.Resolve(ctx, spec.Image)
	if err == nil && img.Packed() != nil {
		err = img.Packed().Unchanged()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.config.Name, err)
	}
	return nil
}

// Create implements bench.Engine. Everything but fork and exec is done here.
func (e *Engine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	plan, err := e.plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	data, err := e.dataOf(spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.config.Name, err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, data.Remove())
	}
	id := fmt.Sprintf("%s-%d", e.config.Name, e.count.Add(1))
	p := newProcess(id, plan, null)
	p.data = data
	return p, nil
}

// Close implements bench.Engine. It kills processes that escaped from their containers.
func (e *Engine) Close(ctx context.Context) error {
	return errors.Join(e.killRun(ctx, e.config.Run), e.data.Close())
}

// A plan is what will be executed.
type plan struct {
	program     string // the file
	argv, env   []string
	dir         string
	image       string    // digest; empty for a program of the host
	root        string    // of the image; empty for a program of the host
	hostProgram string    // the host's program that the image was made from; it runs in its place
	packed      *pack.Set // the image, if it was made from a program of the host
}

// plan decides which program runs on the host for spec, and how.
func (e *Engine) plan(ctx context.Context, spec bench.Spec) (plan, error) {
	if err := e.check(spec); err != nil {
		return plan{}, err
	}
	if err := ctx.Err(); err != nil {
		return plan{}, err
	}
	p, err := e.resolve(ctx, spec)
	if err != nil {
		return plan{}, fmt.Errorf("%s: %w", e.config.Name, err)
	}
	return p, nil
}

func (e *Engine) resolve(ctx context.Context, spec bench.Spec) (p plan, err error) {
	img, err := e.config.Images.Resolve(ctx, spec.Image)
	if err != nil {
		return plan{}, err
	}
	p = plan{dir: spec.Dir, image: img.Digest(), env: img.Env()}
	if p.argv, err = img.Argv(spec); err != nil {
		return plan{}, err
	}
	if p.dir == "" {
		p.dir = img.WorkingDir()
	}
	if err := p.locate(ctx, img); err != nil {
		return plan{}, err
	}
	p.program, err = p.find(p.argv[0])
	if p.packed != nil && errors.Is(err, fs.ErrNotExist) {
		p.program, err = e.launcher(p)
	}
	if errors.Is(err, fs.ErrNotExist) && spec.Image == "" {
		p.image, p.root, p.env = "", "", []string{hostPath}
		p.program, err = p.find(p.argv[0])
	}
	if err != nil {
		return plan{}, fmt.Errorf("program %q: %w", p.argv[0], err)
	}
	p.env = image.MergeEnv(p.env, spec.Env, []string{runVariable + "=" + e.config.Run})
	return p, nil
}

// locate finds the image's programs on the host.
func (p *plan) locate(ctx context.Context, img *image.Image) (err error) {
	set := img.Packed()
	if set == nil {
		p.root, err = img.Rootfs(ctx)
		return err
	}
	if set.SetID {
		return fmt.Errorf("%w: %s is set-user-ID or set-group-ID: as a plain process it would have privileges that it "+
			"has in no container", bench.ErrUnsupported, set.Program)
	}
	p.hostProgram, p.packed = set.Program, set
	return nil
}

// find returns the file of a program.
func (p plan) find(program string) (string, error) {
	switch {
	case p.hostProgram != "" && (program == p.hostProgram || program == filepath.Base(p.hostProgram)):
		return p.hostProgram, nil
	case p.hostProgram != "":
		return "", fmt.Errorf("%w: the image has only the program %s", fs.ErrNotExist, p.hostProgram)
	case p.root != "":
		return findInRoot(p.root, program)
	}
	return exec.LookPath(program)
}

// launcher returns the agent's file, if the program to run is the agent as the launcher of a program
// of the image. That program then runs in its place on the host.
func (e *Engine) launcher(p plan) (string, error) {
	program, ok := agent.LaunchedBy(p.argv)
	if !ok || !filepath.IsAbs(p.argv[0]) {
		return "", fmt.Errorf("%w: the image has only the program %s", fs.ErrNotExist, p.hostProgram)
	}
	isAgent, err := e.config.Images.IsAgent(p.argv[0])
	switch {
	case err != nil:
		return "", err
	case !isAgent:
		return "", fmt.Errorf("%w: it is not the agent, which alone may start a program of an image", fs.ErrNotExist)
	case !p.packed.HasProgram(program):
		return "", fmt.Errorf("%w: the image has no program %s to start", fs.ErrNotExist, program)
	}
	return p.argv[0], nil
}

// findInRoot returns the file of a program below root. The error wraps fs.ErrNotExist if the image has
// no such file.
func findInRoot(root, program string) (string, error) {
	if !filepath.IsAbs(program) {
		return "", fs.ErrNotExist
	}
	file := filepath.Join(root, filepath.Clean(program))
	info, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%w: a link in the image leads out of the image, to another place on the host",
			bench.ErrUnsupported)
	}
	return file, nil
}

// check refuses the parts of a Spec that a plain process cannot provide.
func (e *Engine) check(spec bench.Spec) error {
	security := spec.Security
	if security.Seccomp == "unconfined" {
		security.Seccomp = ""
	}
	if err := bench.CheckNetwork(spec, "", "host"); err != nil {
		return fmt.Errorf("%s: %w", e.config.Name, err)
	}
	var what string
	switch {
	case spec.Image != "" && spec.Image != image.Agent && !strings.HasPrefix(spec.Image, "host:"):
		what = fmt.Sprintf("image %q: a plain process cannot use an image: use host:PROGRAM to run a program of the "+
			"host", spec.Image)
	case len(spec.Mounts) > 0:
		what = "mounts"
	case spec.Storage != "" && spec.Storage != "bind":
		what = fmt.Sprintf("storage %q: a plain process has only directories of the host: use bind", spec.Storage)
	case spec.DataName != "" && datadir.Check(spec) != nil:
		return fmt.Errorf("%s: %w", e.config.Name, datadir.Check(spec))
	case spec.Shm != 0:
		what = "shm: a plain process has the host's /dev/shm: leave it out, or use engine floor"
	case spec.Runtime != "" || spec.Snapshotter != "":
		what = "a plain process has no runtime and no snapshotter: leave them out"
	case spec.Limits != bench.Limits{}:
		what = "a plain process has no limits: use engine floor"
	case security != bench.Security{}:
		what = "a plain process has no security options: use engine floor"
	default:
		return nil
	}
	return fmt.Errorf("%s: %w: %s", e.config.Name, bench.ErrUnsupported, what)
}
