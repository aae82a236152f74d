package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// A process is a bench.Container that contains nothing.
type process struct {
	id   string
	plan plan
	null *os.File
	data *datadir.Dir // nil if the spec needs none

	mu      sync.Mutex
	pipes   [2]*pipe // of stdout and stderr; nil discards
	started *os.Process
	removed bool

	signalling sync.Mutex            // held while the group is signalled or reaped
	reaped     bool                  // another group can have its number
	execs      map[*process]struct{} // running processes of Exec

	exited chan struct{} // closed when exit and err are set
	exit   bench.Exit
	err    error
}

func newProcess(id string, p plan, null *os.File) *process {
	return &process{id: id, plan: p, null: null, exited: make(chan struct{})}
}

// errState means that an operation came too early or too late in a process's life.
var errState = errors.New("not possible in the process's present state")

// ID implements bench.Container.
func (p *process) ID() string { return p.id }

// Attach implements bench.Container.
func (p *process) Attach(_ context.Context, stdout, stderr io.Writer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started != nil || p.removed {
		return fmt.Errorf("attach to %s: %w", p.id, errState)
	}
	stdout, stderr = bench.Outputs(stdout, stderr)
	for i, w := range []io.Writer{stdout, stderr} {
		if w == nil {
			continue
		}
		var err error
		if p.pipes[i], err = newPipe(w); err != nil {
			return err
		}
	}
	return nil
}

// Inspect implements bench.Container. It reads back only where the data is, and what the host has,
// because nothing is applied to a plain process. Of one that runs, it also notes the shared memory, so
// that this is removed with the data.
func (p *process) Inspect(ctx context.Context) (bench.Applied, error) {
	a := bench.Applied{
		Image:    p.plan.image,
		Argv:     p.plan.argv,
		Network:  "host",
		Security: bench.Security{Seccomp: "unconfined"},
	}
	a.Shm = readback.Shm(readback.Self, 0)
	if p.data == nil {
		return a, ctx.Err()
	}
	a.Data, a.DataMounts = "bind "+readback.FileSystem(p.data.Path), readback.DirMounts(p.data.Path)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isAlive() {
		return a, ctx.Err()
	}
	pids, err := proc.Descendants("/", p.started.Pid)
	if err != nil {
		pids = []int{p.started.Pid} // the kernel does not list children
	}
	return a, errors.Join(ctx.Err(), p.data.Note(pids...))
}

// isAlive reports whether the process was started and has not ended. p.mu is held.
func (p *process) isAlive() bool {
	if p.started == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Start implements bench.Container: fork and exec, and nothing else.
func (p *process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.started != nil || p.removed {
		return fmt.Errorf("start %s: %w", p.id, errState)
	}
	files := []*os.File{p.null, p.null, p.null}
	for i, pipe := range p.pipes {
		if pipe != nil {
			files[i+1] = pipe.w
		}
	}
	started, err := os.StartProcess(p.plan.program, p.plan.argv, &os.ProcAttr{
		Dir: p.plan.dir, Env: p.plan.env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.id, err)
	}
	p.started = started
	for _, pipe := range p.pipes {
		pipe.run()
	}
	go p.reap()
	return nil
}

// reap waits for the end of the process. The process stays a zombie until its group is killed, so
// that no other group can get the number before.
func (p *process) reap() {
	defer close(p.exited)
	pid := p.started.Pid
	err := ignoreInterrupts(func() error {
		return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	})
	kill := unix.Kill(-pid, unix.SIGKILL)
	if errors.Is(kill, unix.ESRCH) || errors.Is(kill, unix.EPERM) {
		kill = nil // only the zombie is left, or processes that have changed their user
	}
	p.signalling.Lock()
	state, wait := p.started.Wait()
	p.reaped = true
	p.signalling.Unlock()
	for _, pipe := range p.pipes {
		pipe.finish()
	}
	if p.err = errors.Join(err, kill, wait); p.err != nil {
		p.err = fmt.Errorf("wait for %s: %w", p.id, p.err)
		return
	}
	p.exit = bench.ExitOf(state)
}

func ignoreInterrupts(op func() error) error {
	for {
		if err := op(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Wait implements bench.Container.
func (p *process) Wait(ctx context.Context) (bench.Exit, error) {
	p.mu.Lock()
	started := p.started != nil
	p.mu.Unlock()
	if !started {
		return bench.Exit{}, fmt.Errorf("wait for %s: %w", p.id, errState)
	}
	select {
	case <-p.exited:
		return p.exit, p.err
	case <-ctx.Done():
		return bench.Exit{}, ctx.Err()
	}
}

// Remove implements bench.Container.
func (p *process) Remove(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removed {
		return nil
	}
	if p.isAlive() {
		if err := p.data.NoteLast(p.started.Pid); err != nil {
			return fmt.Errorf("remove %s: %w", p.id, err)
		}
	}
	if err := p.kill(ctx); err != nil {
		return fmt.Errorf("remove %s: %w", p.id, err)
	}
	if err := p.data.Remove(); err != nil {
		return fmt.Errorf("remove %s: %w", p.id, err)
	}
	p.removed = true
	for _, pipe := range p.pipes {
		pipe.close()
	}
	return p.null.Close()
}

// kill kills the process, and returns when it and its group are dead.
func (p *process) kill(ctx context.Context) error {
	if p.started == nil {
		return nil
	}
	// Process.Kill knows whether it has been reaped; reap then kills the group.
	if err := p.started.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Nearly always the first process was alone, which one system call tells. Zombies do not count:
	// their reaper may be slow, or never reap them.
	group := p.started.Pid
	if !pollUntil(ctx, func() bool { return errors.Is(unix.Kill(-group, 0), unix.ESRCH) || !groupAlive(group) }) {
		return ctx.Err()
	}
	return nil
}

// pollUntil polls until done returns true. It returns false if ctx ends first.
func pollUntil(ctx context.Context, done func() bool) bool {
	for wait := 100 * time.Microsecond; !done(); wait = min(2*wait, 10*time.Millisecond) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
	return true
}
