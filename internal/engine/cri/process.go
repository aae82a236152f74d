package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/cgroup"
	"github.com/tare-bench/tare/internal/proc"
)

// Daemons returns the process that listens at the server's socket.
func (e *Engine) Daemons(ctx context.Context) ([]int, error) {
	s, err := e.ask(ctx)
	if err != nil {
		return nil, err
	}
	pid, err := e.daemon(ctx, s)
	if err != nil {
		return nil, err
	}
	if pid == 0 {
		return nil, fmt.Errorf("%w: %s: the process of the server cannot be seen from here", bench.ErrUnsupported, e.cfg.Name)
	}
	return []int{pid}, nil
}

// daemon is the server's process; 0 where it cannot be seen.
func (e *Engine) daemon(ctx context.Context, s *server) (int, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", s.socket)
	if err != nil {
		return 0, e.failed(ctx, "connect", err)
	}
	return proc.Peer(conn), conn.Close()
}

// Pid is what the server says, if the kernel has that process in a cgroup of
// the container's name.
func (e *Engine) Pid(ctx context.Context, c bench.Container) (int, error) {
	own, err := e.own(c)
	if err != nil {
		return 0, err
	}
	_, info, err := own.state(ctx)
	if err != nil {
		return 0, err
	}
	if !inGroupOf(info.Pid, own.id) {
		return 0, own.failed(ctx, "find the process", fmt.Errorf("%w: number %d is not the container's here", bench.ErrUnsupported, info.Pid))
	}
	return info.Pid, nil
}

// inGroupOf reports whether a process is in a cgroup that is named after a pod
// or container: then the server numbers processes as this process does.
func inGroupOf(pid int, id string) bool {
	h, err := cgroup.Detect("/")
	if err != nil || pid <= 0 {
		return false
	}
	groups, err := h.PathOf(pid)
	if err != nil {
		return false
	}
	for _, path := range groups {
		if strings.Contains(path, id) {
			return true
		}
	}
	return false
}

// file reads a file of a process.
func file(pid int, name string) ([]byte, error) {
	return proc.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name), 1<<20)
}

// checkPrivileged refuses a privileged container where the server itself lacks
// a capability, as in another container: it would make one and then not be
// able to start it. Where the server cannot be looked at, it is believed.
func (e *Engine) checkPrivileged(ctx context.Context, s *server) error {
	pid, err := e.daemon(ctx, s)
	if err != nil || pid == 0 {
		return err
	}
	last, err := proc.ReadFile("/proc/sys/kernel/cap_last_cap", 64)
	if err != nil {
		return err
	}
	all, err := strconv.Atoi(string(bytes.TrimSpace(last)))
	if err != nil {
		return err
	}
	held, err := bounding(pid)
	if err != nil {
		return err
	}
	if missing := (uint64(2)<<all - 1) &^ held; missing != 0 {
		return fmt.Errorf("%w: %s: privileged: the server itself lacks %d of the kernel's capabilities (first: number %d)",
			bench.ErrUnsupported, e.cfg.Name, bits.OnesCount64(missing), bits.TrailingZeros64(missing))
	}
	return nil
}

// bounding is the bounding set of a process.
func bounding(pid int) (uint64, error) {
	text, err := file(pid, "status")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte("CapBnd:")); ok {
			return strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
		}
	}
	return 0, errors.New("/proc/" + strconv.Itoa(pid) + "/status has no CapBnd")
}
