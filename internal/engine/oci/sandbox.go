package oci

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/ocispec"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
)

// A sandbox is the state that runsc stores for a container: what it read from config.json, and its
// processes on the host. These are the sandbox, in which the processes inside run, and the gofer,
// which opens files for it.
type sandbox struct {
	Spec     specs.Spec `json:"spec"`
	GoferPid int        `json:"goferPid"`
	Sandbox  struct {
		Pid int `json:"pid"`
	} `json:"sandbox"`
}

// inspectSandbox reads back what can be known about a process with a kernel of its own. The host's
// kernel tells the root's image and the bind mounts (of the gofer), the sandbox's network flag and
// namespace, and the limits, which include the sandbox's own needs. The runtime's state tells the
// rest: argv, tmpfs mounts, a read-only root, and the capabilities and no_new_privs of the process
// inside.
func (c *container) inspectSandbox(ctx context.Context) (bench.Applied, error) {
	a := bench.Applied{Runtime: c.host.version.name, Cgroup: string(c.host.groups.Version()) + " cgroupfs"}
	s, err := c.sandbox()
	if err != nil {
		return a, err
	}
	a.Image, a.Argv = c.bundle.image.Digest(), s.Spec.Process.Args
	if err := c.goferFiles(ctx, s.GoferPid, &a); err != nil {
		return a, err
	}
	a.Mounts = slices.DeleteFunc(a.Mounts, func(m bench.Mount) bool { return m.Type != "bind" })
	a.Mounts = append(a.Mounts, s.tmpfs(c.spec.Mounts)...)
	var errs [4]error
	a.Limits, errs[0] = readback.Limits(c.host.groups, s.Sandbox.Pid, c.bundle.cgroup, c.spec.Limits)
	a.Network, errs[1] = sandboxNetwork(s.Sandbox.Pid)
	a.Security, errs[2] = s.security()
	if c.spec.Storage != "" {
		a.Data, errs[3] = s.data(c.bundle.data)
	}
	a.Shm = ocispec.Shm(&s.Spec, c.spec.Shm)
	return a, errors.Join(errs[:]...)
}

// goferTimeout is how long a gofer may take to set up its root after create has returned. It takes
// milliseconds, unless the machine is busy.
const goferTimeout = 5 * time.Second

// goferFiles reads the gofer's root and mounts, once the gofer has entered them.
func (c *container) goferFiles(ctx context.Context, pid int, a *bench.Applied) error {
	ctx, cancel := context.WithTimeout(ctx, goferTimeout)
	defer cancel()
	for {
		root, mounts, err := readback.FileSystems(pid, c.spec.Mounts)
		if err != nil {
			return err
		}
		a.Storage, a.Mounts = root.Type, mounts
		if err = c.checkRoot(root); err == nil {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// sandbox reads the runtime's state, and checks that its process is the one that this package waits
// for.
func (c *container) sandbox() (*sandbox, error) {
	p, err := c.initPID()
	if err != nil {
		return nil, err
	}
	id := c.bundle.id
	text, err := proc.ReadFile(filepath.Join(c.engine.state(), id+"_sandbox:"+id+".state"), 4<<20)
	if err != nil {
		return nil, err
	}
	var s sandbox
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("state of %s: %w", id, err)
	}
	if s.Sandbox.Pid != p.pid || s.GoferPid <= 1 || s.Spec.Process == nil || s.Spec.Root == nil {
		return nil, fmt.Errorf("%w: %s has sandbox process %d and gofer process %d, but the sandbox should be process "+
			"%d",
			bench.ErrMismatch, id, s.Sandbox.Pid, s.GoferPid, p.pid)
	}
	return &s, nil
}

// sandboxNetwork reads the sandbox's network from its arguments and its namespace.
func sandboxNetwork(pid int) (string, error) {
	same, err := readback.SameNamespace("net", pid, readback.Self)
	if err != nil {
		return "", err
	}
	network := cmp.Or(proc.ArgAfter(proc.Args(pid), "--network"), "the runtime's default")
	if network == "none" || network == "host" && same {
		return network, nil
	}
	return fmt.Sprintf("%s, host's namespace: %v", network, same), nil
}

func (s *sandbox) security() (bench.Security, error) {
	ours, err := readback.StatusOf(readback.Self)
	if err != nil {
		return bench.Security{}, err
	}
	security := bench.Security{
		Seccomp:         "unconfined", // of the process inside: runsc's filter is for the sandbox only
		ReadOnly:        s.Spec.Root.Readonly,
		NoNewPrivileges: s.Spec.Process.NoNewPrivileges,
	}
	if caps := s.Spec.Process.Capabilities; caps != nil {
		held := func(name string) bool { return slices.Contains(caps.Bounding, name) }
		security.Privileged = !slices.ContainsFunc(capabilityNames(uint64(ours.Bounding)),
			func(name string) bool { return !held(name) })
	}
	return security, nil
}

// data returns what bench.DataDir lies on, see readback.Data. A tmpfs is inside the sandbox, and
// the gofer does not know it.
func (s *sandbox) data(d *datadir.Dir) (string, error) {
	if len(s.tmpfs(datadir.Mounts(bench.Spec{Storage: "tmpfs"}, nil))) > 0 {
		return "tmpfs tmpfs", nil
	}
	return readback.Data(s.GoferPid, "bind", d.At())
}

// tmpfs returns those of the runtime's tmpfs mounts that the spec asks for.
func (s *sandbox) tmpfs(want []bench.Mount) []bench.Mount {
	var found []bench.Mount
	for _, w := range want {
		for _, m := range s.Spec.Mounts {
			if m.Destination != w.Target || m.Type != "tmpfs" {
				continue
			}
			got := bench.Mount{Type: m.Type, Target: m.Destination, ReadOnly: slices.Contains(m.Options, "ro")}
			for _, option := range m.Options {
				if size, ok := strings.CutPrefix(option, "size="); ok {
					got.Size, _ = strconv.ParseInt(size, 10, 64) // 0 will be a mismatch
				}
			}
			found = append(found, got)
		}
	}
	return found
}

// runInSandbox is like run, for a process that the host does not see. When ctx ends, it kills the
// process inside and not the runtime's command, which then returns by itself. A command that is
// killed may already have started the process without having reported its number.
func (x *execution) runInSandbox(ctx context.Context, h *hostInfo, stdout, stderr *os.File, args []string) error {
	unlimited, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	back, stopped := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		x.stopInside(back)
		kill() // the command has not returned
	})
	err := run(unlimited, h, stdout, stderr, args)
	close(back)
	if !stop() {
		<-stopped
	}
	return err
}

// stopInside kills the process inside as soon as its number is known, and waits until the command
// has returned. It gives up after deleteLimit.
func (x *execution) stopInside(back <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), deleteLimit)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		_ = x.killInside(ctx) // the number is not known yet: try again
		select {
		case <-tick.C:
		case <-back:
			return
		case <-ctx.Done():
			return
		}
	}
}

// killInside lets the runtime kill the process inside, once. It does nothing without a number: no
// process was started, or its number is not known yet.
func (x *execution) killInside(ctx context.Context) error {
	if x.killed {
		return nil
	}
	pid, err := proc.ReadFile(x.path(".pid"), 64)
	pid = bytes.TrimSpace(pid)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(pid) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	c := x.container
	err = c.quietly(ctx, []string{"kill", "--pid", string(pid)}, "9")
	x.killed = err == nil
	return err
}
