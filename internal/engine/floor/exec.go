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
	"github.com/tare-bench/tare/internal/engine/stdstream"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netns"
)

// Exec implements bench.Execer with one fork and one exec, and no process in between. A thread of
// tare enters the container's namespaces and its group, drops the privileges that a program there
// may not have, starts the process and ends.
//
// A thread cannot enter a user namespace, so Exec refuses containers that have one.
func (e *Engine) Exec(
	ctx context.Context, c bench.Container, argv []string, stdout, stderr io.Writer,
) (bench.Exit, error) {
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
		return bench.Exit{}, fmt.Errorf("%w: exec in a user namespace: a thread of tare cannot enter it: run tare as "+
			"root and without userns", bench.ErrUnsupported)
	case len(argv) == 0:
		return bench.Exit{}, errors.New("no program given")
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
	container   *container
	argv        []string
	files       []*os.File // for the process: /dev/null and the ends of pipes
	parentFiles []*os.File
	copying     sync.WaitGroup
	process     *os.Process
}

// open makes the files for the process's descriptors. The kernel discards an output without a
// writer.
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
		x.files, x.parentFiles = append(x.files, w), append(x.parentFiles, r)
		x.copying.Go(func() { stdstream.Drain(to, r) })
	}
	return nil
}

func (x *execution) close() {
	closeAll(x.files...)
	closeAll(x.parentFiles...)
}

// start starts the process from a thread that does nothing else and ends with its goroutine. It
// must not be the main thread, which never ends and represents tare in /proc.
func (x *execution) start() error {
	err := netns.Elsewhere(func() (bool, error) { return false, x.startHere() })
	closeAll(x.files...)
	return err
}

// startHere starts the process from this thread, which cannot be used for anything else afterwards.
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

// enter moves this thread into the container's namespaces, and drops the same privileges as init
// did for the first process.
func (c *container) enter() error {
	fd, err := unix.PidfdOpen(c.process.Pid, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer func() { _ = unix.Close(fd) }()               // nothing was written
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // otherwise the root of all threads would change
		return os.NewSyscallError("unshare", err)
	}
	spaces := unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	if c.plan.spec.Network != "host" {
		spaces |= unix.CLONE_NEWNET
	}
	// With version 2 mounted by systemd (nsdelegate), the kernel lets a process start in another
	// group only if the starter's cgroup namespace shows both groups. Then the process keeps tare's
	// cgroup namespace.
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

// programs lists the possible paths of a program inside the container.
func programs(name string, env []string) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	found := []string{name} // for the error message without a PATH
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

// wait waits for the end of the process and of its output. If ctx ends first, it kills the process.
// Children of the process live on, as in any container.
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
