package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/proc"
)

// deleteLimit bounds one try to have the runtime delete a container. After it
// the engine does so itself.
const deleteLimit = 5 * time.Second

// A container is one container of an OCI runtime.
type container struct {
	engine *Engine
	host   *host
	bundle *bundle
	spec   bench.Spec

	stdout, stderr io.Writer // where Attach wants the output; nil discards

	// What concerns the process is left until a runtime's command has returned,
	// so that neither looking it up nor news of it gets into the command's time.
	found   func() (*process, error) // the first process in the container
	watched sync.Once                // that it is waited for
	exited  chan struct{}            // closed when exit and waitErr are set
	exit    bench.Exit
	waitErr error

	mu      sync.Mutex // guards what follows
	applied *bench.Applied
	deleted bool // by the runtime; the bundle may be there
	removed bool
}

func (c *container) ID() string { return c.bundle.id }

// command runs a command of the runtime, for this container.
func (c *container) command(ctx context.Context, stdout, stderr *os.File, args ...string) error {
	argv := append([]string{
		"--root", c.engine.state(), "--log", c.bundle.path("log"), "--log-format", "json",
	}, args...)
	argv = append(argv, c.bundle.id)
	if err := run(ctx, c.host, stdout, stderr, argv); err != nil {
		said := tail(c.bundle.path("stderr"))
		if stderr == c.bundle.stderr.w {
			said = c.bundle.stderr.pending()
		}
		return explain(append([]string{c.host.binary}, argv...), err, tail(c.bundle.path("log")), said)
	}
	return nil
}

func newContainer(e *Engine, h *host, b *bundle, spec bench.Spec) *container {
	c := &container{engine: e, host: h, bundle: b, spec: spec, exited: make(chan struct{})}
	c.found = sync.OnceValues(c.find)
	return c
}

// create makes the container. Its process exists from now on.
func (c *container) create(ctx context.Context) error {
	b := c.bundle
	return c.command(ctx, b.stdout.w, b.stderr.w, "create", "--bundle", b.dir, "--pid-file", b.path("pid"))
}

// find looks up the process that create made. If it has ended it keeps its
// number, because it is waited for here and nowhere else.
func (c *container) find() (*process, error) {
	c.bundle.stdout.closeWrite()
	c.bundle.stderr.closeWrite()
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

// watch begins to copy what the process prints, and to wait for its end.
func (c *container) watch() {
	c.watched.Do(func() {
		p, err := c.found()
		c.bundle.stdout.copy(c.stdout)
		c.bundle.stderr.copy(c.stderr)
		if err != nil {
			c.waitErr = err
			close(c.exited)
			return
		}
		go c.await(p)
	})
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

// await takes the exit status of the container's process.
func (c *container) await(p *process) {
	defer close(c.exited)
	status, err := p.wait()
	if err != nil {
		c.waitErr = fmt.Errorf("wait for process %d: %w", p.pid, err)
		return
	}
	if !status.Signaled() {
		c.exit = bench.Exit{Code: status.ExitStatus()}
		return
	}
	signal := status.Signal()
	c.exit = bench.Exit{Code: 128 + int(signal), Signal: int(signal)}
	if signal == syscall.SIGKILL {
		stat, err := c.host.groups.Stat(c.bundle.cgroup)
		c.exit.OOM = err == nil && stat.OOMKills > 0
	}
}

func (c *container) Attach(_ context.Context, stdout, stderr io.Writer) error {
	c.stdout, c.stderr = stdout, stderr
	_, err := c.found()
	return err
}

// Start leaves what the process prints in its pipes until the runtime's
// command has returned.
func (c *container) Start(ctx context.Context) error {
	err := c.command(ctx, c.host.null, c.bundle.errors, "start")
	c.watch()
	return err
}

func (c *container) Wait(ctx context.Context) (bench.Exit, error) {
	c.watch()
	select {
	case <-c.exited:
	case <-ctx.Done():
		return bench.Exit{}, context.Cause(ctx)
	}
	if c.waitErr != nil {
		return bench.Exit{}, c.waitErr
	}
	if err := errors.Join(c.bundle.stdout.wait(ctx), c.bundle.stderr.wait(ctx)); err != nil {
		return bench.Exit{}, err
	}
	return c.exit, nil
}

// Remove deletes the container. The bundle of one that had ended by itself is
// left to the second call, or to the engine; see the package comment.
func (c *container) Remove(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return nil
	}
	if !c.deleted {
		done, err := c.delete(ctx)
		if err != nil {
			return err
		}
		c.deleted = true
		c.engine.retire(c.bundle)
		if done {
			return nil
		}
	}
	if err := c.engine.takeDown(c.bundle); err != nil {
		return err
	}
	c.removed = true
	return nil
}

// delete has the runtime delete the container, and does it itself where the
// runtime cannot. It reports whether that was all the regular way: the process
// had ended, and one command was enough.
func (c *container) delete(ctx context.Context) (regular bool, err error) {
	p, err := c.found()
	if err != nil {
		return false, c.force(ctx)
	}
	c.watch()
	select {
	case <-c.exited:
		regular = true
	default:
		// Killing first is quicker than the runtimes' own --force: runc looks
		// only every 100 ms whether the process is gone.
		if err := c.kill(ctx, p); err != nil {
			return false, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, deleteLimit)
	defer cancel()
	if c.command(limited, c.host.null, c.bundle.errors, "delete") == nil {
		return regular, nil
	}
	return false, c.force(ctx)
}

// kill ends the first process, and with it all others in its PID namespace.
func (c *container) kill(ctx context.Context, p *process) error {
	if err := p.kill(); err != nil {
		return fmt.Errorf("kill process %d: %w", p.pid, err)
	}
	select {
	case <-c.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("process %d was killed and has not ended: %w", p.pid, context.Cause(ctx))
	}
}

// force deletes a container in any state, even one that the runtime does not
// know or cannot read any more.
func (c *container) force(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, deleteLimit)
	defer cancel()
	// Whatever it answers: what it should have removed is looked for below.
	_ = c.command(limited, c.host.null, c.bundle.errors, "delete", "--force")
	if err := endGroup(ctx, c.bundle.cgroup); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(c.engine.state(), c.bundle.id))
}

// discard removes what is left of a container that could not be created.
func (c *container) discard(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*deleteLimit)
	defer cancel()
	return errors.Join(c.force(ctx), c.engine.takeDown(c.bundle))
}
