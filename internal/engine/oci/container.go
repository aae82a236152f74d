package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// deleteLimit limits one attempt of the runtime to delete a container.
const deleteLimit = 5 * time.Second

// A container is one container of an OCI runtime.
type container struct {
	engine *Engine
	host   *hostInfo
	bundle *bundle
	spec   bench.Spec

	address netip.Addr // on the engine's bridge; invalid if the container is not on it

	stdout, stderr io.Writer // from Attach; nil discards

	init atomic.Pointer[initProcess] // Restore begins another one

	mu      sync.Mutex // guards what follows
	applied *bench.Applied
	failed  bool // the runtime failed to delete it: the next attempt uses force
	deleted bool // the runtime deleted it; the bundle may still exist
	removed bool
	// processes are the files that describe the processes of Exec, by arguments.
	processes map[string]string

	frozen atomic.Bool  // Pause may have stopped the processes
	execs  atomic.Int64 // counts calls of Exec; the files of each have its number
}

// An initProcess of a container is the life of its first process. The process is looked up, and its end is
// reported, only after the runtime's command has returned, so that neither adds to the command's
// time.
type initProcess struct {
	process        func() (*process, error) // the first process in the container
	watched        sync.Once                // starts waiting for the process
	stdout, stderr *pipe
	exited         chan struct{} // closed when exit and err are set
	exit           bench.Exit
	err            error
}

func (c *container) ID() string { return c.bundle.id }

// quietly runs a command whose output does not matter.
func (c *container) quietly(ctx context.Context, args []string, after ...string) error {
	return c.command(ctx, c.host.null, c.bundle.errors, args, after...)
}

// command runs a command of the runtime, with further arguments after the container's name.
func (c *container) command(ctx context.Context, stdout, stderr *os.File, args []string, after ...string) error {
	argv := append(c.globals("log"), args...)
	argv = append(append(argv, c.bundle.id), after...)
	if err := run(ctx, c.host, stdout, stderr, argv); err != nil {
		said := tail(c.bundle.path("stderr"))
		if stderr == c.bundle.stderr.w {
			said = c.bundle.stderr.pending()
		}
		return commandFailure(append([]string{c.host.binary}, argv...), err, tail(c.bundle.path("log")), said)
	}
	return nil
}

// globals are the flags before every command; log is the name of its log in the bundle.
func (c *container) globals(log string) []string {
	flags := []string{"--root", c.engine.state(), "--log", c.bundle.path(log), "--log-format", "json"}
	return append(flags, c.host.dialect.flags(c.spec)...)
}

func newContainer(e *Engine, h *hostInfo, b *bundle, spec bench.Spec) *container {
	c := &container{engine: e, host: h, bundle: b, spec: spec}
	c.begin()
	return c
}

// begin begins a life with the bundle's pipes.
func (c *container) begin() {
	l := &initProcess{stdout: c.bundle.stdout, stderr: c.bundle.stderr, exited: make(chan struct{})}
	l.process = sync.OnceValues(func() (*process, error) { return c.openInit(l) })
	c.init.Store(l)
}

func (c *container) initPID() (*process, error) { return c.init.Load().process() }

// create makes the container. Its process exists from then on.
func (c *container) create(ctx context.Context) error {
	b := c.bundle
	return c.command(ctx, b.stdout.w, b.stderr.w, []string{"create", "--bundle", b.dir, "--pid-file", b.path("pid")})
}

// join puts the container on the engine's bridge. It runs after create, when the namespaces exist
// and nothing runs in them yet.
func (c *container) join() error {
	p, err := c.initPID()
	if err != nil {
		return err
	}
	c.address, err = c.engine.network.Join(p.pid)
	return err
}

// openInit looks up the process that create made. Even after its end the process keeps its number,
// because only this package waits for it.
func (c *container) openInit(l *initProcess) (*process, error) {
	l.stdout.closeWrite()
	l.stderr.closeWrite()
	pid, err := readPID(c.bundle.path("pid"))
	if err != nil {
		return nil, fmt.Errorf("%s create: %w", c.engine.cfg.Name, err)
	}
	p, err := openProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("%s create: process %d: %w", c.engine.cfg.Name, pid, err)
	}
	return p, nil
}

// watch begins to copy the process's output, and to wait for its end.
func (c *container) watch() *initProcess {
	l := c.init.Load()
	l.watched.Do(func() {
		p, err := l.process()
		l.stdout.copy(c.stdout)
		l.stderr.copy(c.stderr)
		if err != nil {
			l.err = err
			close(l.exited)
			return
		}
		go c.await(l, p)
	})
	return l
}

func readPID(name string) (int, error) {
	text, err := proc.ReadFile(name, 64)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("%s: not a process ID: %.40q", name, text)
	}
	return pid, nil
}

// await collects the exit status of the container's process.
func (c *container) await(l *initProcess, p *process) {
	defer close(l.exited)
	status, err := p.wait()
	if err != nil {
		l.err = fmt.Errorf("wait for process %d: %w", p.pid, err)
		return
	}
	if !status.Signaled() {
		l.exit = bench.Exit{Code: status.ExitStatus()}
		return
	}
	signal := status.Signal()
	l.exit = bench.Exit{Code: 128 + int(signal), Signal: int(signal)}
	if signal == syscall.SIGKILL {
		stat, err := c.host.groups.Stat(c.bundle.cgroup)
		l.exit.OOM = err == nil && stat.OOMKills > 0
	}
}

func (c *container) Attach(_ context.Context, stdout, stderr io.Writer) error {
	c.stdout, c.stderr = bench.Outputs(stdout, stderr)
	_, err := c.initPID()
	return err
}

// Start runs the runtime's start. The process's output stays in the pipes until that command has
// returned.
func (c *container) Start(ctx context.Context) error {
	err := c.quietly(ctx, []string{"start"})
	c.watch()
	return err
}

func (c *container) Wait(ctx context.Context) (bench.Exit, error) {
	l := c.watch()
	select {
	case <-l.exited:
	case <-ctx.Done():
		return bench.Exit{}, context.Cause(ctx)
	}
	if l.err != nil {
		return bench.Exit{}, l.err
	}
	if err := errors.Join(l.stdout.wait(ctx), l.stderr.wait(ctx)); err != nil {
		return bench.Exit{}, err
	}
	return l.exit, nil
}

// Remove runs the runtime's delete. If the container had ended by itself, its bundle is left to the
// second call or to the engine; see the package comment. If the runtime fails, the next call uses
// force.
func (c *container) Remove(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return nil
	}
	if !c.deleted {
		done, err := c.delete(ctx)
		c.failed = err != nil
		if err != nil {
			return err
		}
		c.deleted = true
		c.engine.network.Leave(c.address)
		c.address = netip.Addr{} // another container may get it now
		c.engine.retire(c.bundle)
		if done {
			return nil
		}
	}
	if err := c.engine.removeBundle(c.bundle); err != nil {
		return err
	}
	c.removed = true
	return nil
}

// Gone looks for the state that runtimes keep until a container is deleted.
func (e *Engine) Gone(_ context.Context, bc bench.Container) error {
	c, err := e.containerOf(bc)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, file := range stateOf(e.state(), c.bundle.id) {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			c.failed, c.deleted, c.removed = true, false, false
			return errors.Join(fmt.Errorf("%s delete reported success but removed nothing: %s still exists",
				e.cfg.Name, file), err)
		}
	}
	return nil
}

// delete runs the runtime's delete, or uses force if delete has failed before. regular reports
// whether the process had already ended and one command was enough.
func (c *container) delete(ctx context.Context) (regular bool, err error) {
	if c.failed {
		return false, c.forceDelete(ctx)
	}
	p, err := c.initPID()
	if err != nil {
		return false, err
	}
	l := c.watch()
	select {
	case <-l.exited:
		regular = true
	default:
		// Killing first is faster than the runtimes' own --force: runc checks only every 100 ms
		// whether the process is gone.
		if err := c.kill(ctx, l, p); err != nil {
			return false, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, deleteLimit)
	defer cancel()
	args := []string{"delete"}
	if c.frozen.Load() && c.host.dialect.sandbox {
		args = append(args, "--force") // runsc calls a sandbox that was killed while paused "paused" forever
	}
	return regular, c.quietly(limited, args)
}

// kill kills the first process. All others in its PID namespace die with it.
func (c *container) kill(ctx context.Context, l *initProcess, p *process) error {
	err := p.kill()
	if err == nil && c.frozen.Load() {
		err = c.host.groups.Thaw(ctx, c.bundle.cgroup) // on version 1 a frozen process does not notice the signal
	}
	if err != nil {
		return fmt.Errorf("kill process %d: %w", p.pid, err)
	}
	select {
	case <-l.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("process %d was killed but has not ended: %w", p.pid, context.Cause(ctx))
	}
}

// forceDelete deletes a container in any state, even one that the runtime does not know or can no longer
// read.
func (c *container) forceDelete(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, deleteLimit)
	defer cancel()
	// Its answer does not matter: the code below checks what is still there.
	_ = c.quietly(limited, []string{"delete", "--force"})
	if err := endGroup(ctx, c.bundle.cgroup); err != nil {
		return err
	}
	return removeState(c.engine.state(), c.bundle.id)
}

// removeUncreated removes the parts of a container whose creation failed.
func (c *container) removeUncreated(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*deleteLimit)
	defer cancel()
	err := c.forceDelete(ctx)
	c.engine.network.Leave(c.address)
	return errors.Join(err, c.engine.removeBundle(c.bundle))
}
