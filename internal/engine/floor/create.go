package floor

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
)

// maxReport limits what is read from init, in bytes. It is large because an argument list can be
// long.
const maxReport = 4 << 20

// A stepError is a failed step that init reports.
type stepError struct {
	step, text string
	errno      syscall.Errno // 0 if the error is not the kernel's
}

func (e *stepError) Error() string { return e.step + ": " + e.text }

// Unwrap returns the kernel's error, for errors.Is.
func (e *stepError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

// create makes a container for p. If it fails, it leaves nothing behind.
func (e *Engine) create(ctx context.Context, p plan) (*container, error) {
	id := e.prefix + "-" + strconv.FormatInt(e.count.Add(1), 10)
	c := &container{
		id: id, plan: p, run: e.config.Run, dir: filepath.Join(e.config.Dir, id),
		group: runGroup(e.config.Run) + "/" + id, copied: e.copies.Load(), exited: make(chan struct{}),
		network: &e.network,
	}
	err := c.build(ctx, e.data)
	if err == nil && p.spec.Network == "bridge" {
		c.address, err = e.network.Join(c.process.Pid)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the errors that follow from it do not matter
		}
		return nil, errors.Join(err, c.Remove(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// build makes everything that belongs to a container.
func (c *container) build(ctx context.Context, k *datadir.Manager) error {
	root, err := c.makeRoot()
	if err != nil {
		return err
	}
	if err := c.makeData(k); err != nil {
		return err
	}
	if h := c.plan.groups; h != nil {
		l := c.plan.spec.Limits
		if err := h.Create(c.group,
			cgroup.Limits{CPUs: l.CPUs, CPUSet: l.CPUSet, Memory: l.Memory, Pids: l.Pids}); err != nil {
			return err
		}
		c.groups = h
	}
	if err := c.openPipes(); err != nil {
		return err
	}
	if err := c.startInit(); err != nil {
		return err
	}
	return c.instruct(ctx, c.instructions(root))
}

// makeRoot makes the container's directory, and returns how init makes the root from it.
func (c *container) makeRoot() (agent.Root, error) {
	target := filepath.Join(c.dir, "root")
	root := agent.Root{Target: target, ReadOnly: c.plan.spec.Security.ReadOnly}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return root, err
	}
	if c.copied {
		return root, os.CopyFS(target, os.DirFS(c.plan.rootfs))
	}
	upper, work := filepath.Join(c.dir, "upper"), filepath.Join(c.dir, "work")
	for _, dir := range []string{target, upper, work} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return root, err
		}
	}
	// The mode of the container's root is the mode of upper, and must not depend on the umask.
	if err := os.Chmod(upper, 0o755); err != nil {
		return root, err
	}
	root.Overlay = overlay(c.plan.rootfs, upper, work)
	if c.plan.userNS {
		root.Overlay += ",userxattr" // the attributes that an ordinary user may set
	}
	return root, nil
}

// makeData makes the directory for the container's data; init makes a tmpfs.
func (c *container) makeData(k *datadir.Manager) (err error) {
	if c.plan.spec.Storage != "layer" {
		c.data, err = k.Take(c.plan.spec)
		return err
	}
	layer := filepath.Join(c.dir, "upper")
	if c.copied {
		layer = filepath.Join(c.dir, "root")
	}
	return datadir.MakeIn(layer)
}

// overlay returns the options of an overlay. Its separators are escaped.
func overlay(lower, upper, work string) string {
	return "lowerdir=" + quoteOverlay(lower) + ",upperdir=" + quoteOverlay(upper) + ",workdir=" + quoteOverlay(work)
}

func quoteOverlay(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}

// openPipes makes the pipes for init's descriptors.
func (c *container) openPipes() (err error) {
	open := func(r, w **os.File) {
		if err == nil {
			*r, *w, err = os.Pipe()
		}
	}
	open(&c.childFiles.control, &c.control)
	open(&c.report, &c.childFiles.report)
	open(&c.output[0], &c.childFiles.stdout)
	open(&c.output[1], &c.childFiles.stderr)
	if err == nil {
		c.childFiles.stdin, err = os.Open(os.DevNull)
	}
	return err
}

// startInit starts the first process, in its namespaces and its cgroup.
func (c *container) startInit() error {
	sys := namespaces(c.plan.spec.Network, c.plan.userNS)
	inside := false
	if c.groups != nil && c.groups.Version() == cgroup.V2 {
		dir, err := c.groups.Open(c.group)
		if err != nil {
			return err
		}
		defer func() { _ = dir.Close() }() // only passed to clone3
		sys.UseCgroupFD, sys.CgroupFD, inside = true, int(dir.Fd()), true
	}
	t := &c.childFiles
	p, err := os.StartProcess(c.plan.init, []string{agent.Path, "init"}, &os.ProcAttr{
		Dir: "/",
		// One processor is enough, and saves threads. The program gets an environment of its own.
		Env:   []string{"GOMAXPROCS=1"},
		Files: []*os.File{t.stdin, t.stdout, t.stderr, t.control, t.report},
		Sys:   sys,
	})
	t.close()
	if err != nil {
		return fmt.Errorf("start init: %w", err)
	}
	c.process = p
	go c.reap()
	if c.groups == nil || inside {
		return nil
	}
	return c.groups.Attach(c.group, p.Pid)
}

// namespaces says which namespaces the first process gets. The cgroup
// namespace is not among them: it is entered once the process is in its group.
func namespaces(network string, userNS bool) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	if network != "host" {
		sys.Cloneflags |= syscall.CLONE_NEWNET
	}
	if userNS {
		sys.Cloneflags |= syscall.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return sys
}

// instruct sends init its instructions, and waits until it has carried them out.
func (c *container) instruct(ctx context.Context, in agent.Instructions) error {
	line, err := json.Marshal(in)
	if err != nil {
		return err
	}
	// If init does not read, writing blocks as soon as the pipe is full. Pipes have deadlines, so
	// this call does not fail.
	stop := context.AfterFunc(ctx, func() { _ = c.control.SetWriteDeadline(time.Unix(1, 0)) })
	_, err = c.control.Write(append(line, '\n'))
	if !stop() && err == nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("send instructions to init: %w", err)
	}
	report, err := c.readReport(ctx)
	if err != nil {
		return err
	}
	if report.Thread == 0 {
		return c.initError(ctx)
	}
	c.ready = report
	return nil
}

// initError returns the error for an init that ended without a report, with what its Go runtime printed,
// if anything.
func (c *container) initError(ctx context.Context) error {
	select {
	case <-c.exited:
	case <-ctx.Done():
		return ctx.Err()
	}
	const enough = 300
	said, err := io.ReadAll(io.LimitReader(c.output[1], enough))
	if err != nil || len(said) == 0 {
		return fmt.Errorf("init ended before it was ready: %v", c.exit)
	}
	return fmt.Errorf("init ended before it was ready: %v: %q", c.exit, said)
}

// readReport reads one Report. An error in the report is returned as an error. The zero Report
// means that init closed the pipe because it executed the program.
func (c *container) readReport(ctx context.Context) (agent.Report, error) {
	// Reading ends with ctx. Pipes have deadlines, so these calls do not fail.
	stop := context.AfterFunc(ctx, func() { _ = c.report.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(c.report, maxReport)).ReadBytes('\n')
	if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return agent.Report{}, ctx.Err()
	}
	if len(line) == 0 && errors.Is(err, io.EOF) {
		return agent.Report{}, nil
	}
	var r agent.Report
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("read init's report: %w", err)
	}
	if r.Step != "" {
		return r, &stepError{r.Step, r.Error, r.Errno}
	}
	return r, nil
}

// instructions are what init must set up.
func (c *container) instructions(root agent.Root) agent.Instructions {
	spec := c.plan.spec
	in := agent.Instructions{
		Root: root, Hostname: c.id, Loopback: spec.Network != "host", CgroupNS: c.groups != nil,
		Keep: agent.DefaultCapabilities, NoNewPrivs: spec.Security.NoNewPrivileges,
		Argv: c.plan.argv, Env: c.plan.env, Dir: c.plan.dir,
	}
	proc := agent.InitMount{
		Type: "proc", Source: "proc", Target: "/proc", Flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC,
	}
	if spec.Security.Privileged {
		in.Keep = ^uint64(0)
	} else {
		proc.Flags |= unix.MS_RDONLY // otherwise root inside could change the host's settings
	}
	in.Mounts = append([]agent.InitMount{proc}, devices(mountName(c.run, c.id), cmp.Or(spec.Shm, bench.DefaultShm))...)
	for _, m := range datadir.Mounts(spec, c.data) {
		in.Mounts = append(in.Mounts, mountOf(m))
	}
	return in
}

// devices is a small /dev. The name of its file system identifies the container. shm is the size of
// /dev/shm.
func devices(name string, shm int64) []agent.InitMount {
	mounts := []agent.InitMount{
		{Type: "tmpfs", Source: name, Target: "/dev", Flags: unix.MS_NOSUID, Data: "mode=755,size=64k"},
		{
			Type: "tmpfs", Source: "shm", Target: "/dev/shm", Flags: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC,
			Data: "mode=1777,size=" + strconv.FormatInt(shm, 10),
		},
	}
	for _, device := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		mounts = append(mounts, agent.InitMount{Type: "bind", Source: "/dev/" + device, Target: "/dev/" + device})
	}
	return mounts
}

func mountOf(m bench.Mount) agent.InitMount {
	if m.Type == "bind" {
		return agent.InitMount{Type: "bind", Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
	}
	tmpfs := agent.InitMount{
		Type: "tmpfs", Source: "tmpfs", Target: m.Target, Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: "mode=1777",
	}
	if m.Size > 0 {
		tmpfs.Data += ",size=" + strconv.FormatInt(m.Size, 10)
	}
	if m.ReadOnly {
		tmpfs.Flags |= unix.MS_RDONLY
	}
	return tmpfs
}
