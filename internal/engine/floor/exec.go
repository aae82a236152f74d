package floor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netns"
)

// Exec implements bench.Execer with one fork and one exec, and no process
// between: a thread of tare enters the container's namespaces and its group,
// gives up what a program there may not have, starts the process and ends.
//
// A thread cannot enter a user namespace, so containers with one refuse.
func (e *Engine) Exec(ctx context.Context, c bench.Container, argv []string, stdout, stderr io.Writer) (bench.Exit, error) {
	own, err := e.running(c)
	if err != nil {
		return bench.Exit{}, err
	}
	exit, err := own.exec(ctx, argv, stdout, stderr)
	if err != nil {
		err = fmt.Errorf("exec in %s: %w", own.id, err)
	}
	return exit, err
}

func (c *container) exec(ctx context.Context, argv []string, stdout, stderr io.Writer) (bench.Exit, error) {
	switch {
	case c.plan.userNS:
		return bench.Exit{}, fmt.Errorf("%w: a thread cannot enter a user namespace", bench.ErrUnsupported)
	case len(argv) == 0:
		return bench.Exit{}, errors.New("no program")
	case ctx.Err() != nil:
		return bench.Exit{}, ctx.Err()
	}
	x := &execution{container: c, argv: argv}
	defer x.close()
	if err := x.open(stdout, stderr); err != nil {
		return bench.Exit{}, err
	}
	if err := x.start(); err != nil {
		return bench.Exit{}, err
	}
	return x.wait(ctx)
}

// An execution is one call of Exec.
type execution struct {
	container *container
	argv      []string
	files     []*os.File // what the process gets: null, and the ends of pipes
	ours      []*os.File
	copying   sync.WaitGroup
	process   *os.Process
}

// open makes what the process's descriptors are connected to. An output that
// nobody wants is discarded by the kernel.
func (x *execution) open(stdout, stderr io.Writer) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	x.files = []*os.File{null}
	stdout, stderr = bench.Outputs(stdout, stderr)
	for _, to := range []io.Writer{stdout, stderr} {
		if to == nil {
			x.files = append(x.files, null)
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		x.files, x.ours = append(x.files, w), append(x.ours, r)
		x.copying.Go(func() { carry(to, r) })
	}
	return nil
}

func (x *execution) close() {
	closeAll(x.files...)
	closeAll(x.ours...)
}

// start starts the process from a thread that does nothing else and ends then. The
// main thread would not end: it stands for tare in /proc.
func (x *execution) start() error {
	err := netns.Elsewhere(func() (bool, error) { return false, x.startHere() })
	closeAll(x.files...)
	return err
}

// startHere starts the process from this thread, which is of no other use then.
func (x *execution) startHere() error {
	c := x.container
	sys := &syscall.SysProcAttr{Setsid: true}
	if c.groups != nil {
		if err := c.groups.AttachThread(c.group, unix.Gettid()); err != nil {
			return err
		}
		if c.groups.Version() != cgroup.V1 {
			dir, err := c.groups.Open(c.group)
			if err != nil {
				return err
			}
			defer closeAll(dir)
			sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
		}
	}
	if err := c.enter(); err != nil {
		return err
	}
	attr := &os.ProcAttr{Dir: c.plan.dir, Env: c.plan.env, Files: x.files, Sys: sys}
	if attr.Dir == "" {
		attr.Dir = "/"
	}
	var err error
	for _, program := range programs(x.argv[0], c.plan.env) {
		x.process, err = os.StartProcess(program, x.argv, attr)
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			break
		}
	}
	return err
}

// enter puts this thread into the container's namespaces, and takes away what
// init has taken from the first process.
func (c *container) enter() error {
	fd, err := unix.PidfdOpen(c.process.Pid, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer func() { _ = unix.Close(fd) }()               // nothing was written
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // or it would be all threads' root
		return os.NewSyscallError("unshare", err)
	}
	spaces := unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	if c.plan.spec.Network != "host" {
		spaces |= unix.CLONE_NEWNET
	}
	// Of version 2 the kernel lets nobody start a process in a group from another
	// one unless its own namespace shows both, where systemd has mounted it
	// (nsdelegate): then the process keeps tare's.
	if c.groups != nil && c.groups.Version() != cgroup.V2 {
		spaces |= unix.CLONE_NEWCGROUP
	}
	if err := unix.Setns(fd, spaces); errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: entering a container needs Linux 5.8: setns: %w", bench.ErrUnsupported, err)
	} else if err != nil {
		return os.NewSyscallError("setns", err)
	}
	unix.Umask(0o22)
	in := agent.Instructions{Keep: agent.DefaultCapabilities, NoNewPrivs: c.plan.spec.Security.NoNewPrivileges}
	if c.plan.spec.Security.Privileged {
		in.Keep = ^uint64(0)
	}
	return in.Confine()
}

// programs lists where a program can be, inside.
func programs(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	found := []string{name} // for the error, where there is no PATH
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			found = nil
			for _, dir := range filepath.SplitList(path) {
				found = append(found, filepath.Join(dir, name))
			}
		}
	}
	return found
}

// wait sees the process to its end, and its output to the end of that. When
// ctx ends first it is killed. What it has started lives on, as in any
// container.
func (x *execution) wait(ctx context.Context) (bench.Exit, error) {
	stop := context.AfterFunc(ctx, func() { _ = x.process.Kill() }) // it may have ended just now
	state, err := x.process.Wait()
	if !stop() && ctx.Err() != nil {
		return bench.Exit{}, ctx.Err()
	}
	if err != nil {
		return bench.Exit{}, err
	}
	copied := make(chan struct{})
	go func() { x.copying.Wait(); close(copied) }()
	select {
	case <-copied:
		return bench.ExitOf(state), nil
	case <-ctx.Done():
		return bench.Exit{}, ctx.Err()
	}
}
