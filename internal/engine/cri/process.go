package cri

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/proc"
	"github.com/tare-bench/tare/internal/kernel/readback"
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
	if info.Pid == 0 {
		return 0, own.failed(ctx, "find the process", errors.New("it has none"))
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
	return err == nil && readback.InGroupOf(h, pid, id)
}

// checkPrivileged refuses a privileged container where the server itself lacks
// a capability, as in another container: it would make one and then not be
// able to start it. Where the server cannot be looked at, it is believed.
func (e *Engine) checkPrivileged(ctx context.Context, s *server) error {
	pid, err := e.daemon(ctx, s)
	if err != nil {
		return err
	}
	if lacks, err := readback.Withheld(pid); err == nil && lacks != 0 {
		return fmt.Errorf("%w: %s: privileged: the server itself lacks %v", bench.ErrUnsupported, e.cfg.Name, lacks)
	}
	return nil
}
