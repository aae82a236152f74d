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
	s, err := e.status(ctx)
	if err != nil {
		return nil, err
	}
	pid, err := e.daemon(ctx, s)
	if err != nil {
		return nil, err
	}
	if pid == 0 {
		return nil, fmt.Errorf("%w: %s: the server's process is not visible from here: run tare in the server's PID "+
			"namespace", bench.ErrUnsupported, e.cfg.Name)
	}
	return []int{pid}, nil
}

// daemon is the server's process; 0 if it is not visible from here.
func (e *Engine) daemon(ctx context.Context, s *server) (int, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", s.socket)
	if err != nil {
		return 0, e.failed(ctx, "connect", err)
	}
	return proc.Peer(conn), conn.Close()
}

// Pid is the process that the server names, if the kernel has that process in a cgroup with the
// container's name.
func (e *Engine) Pid(ctx context.Context, c bench.Container) (int, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return 0, err
	}
	_, info, err := own.state(ctx)
	if err != nil {
		return 0, err
	}
	if info.Pid == 0 {
		return 0, own.failed(ctx, "find the process", errors.New("the container has none"))
	}
	if !inCgroupNamed(info.Pid, own.id) {
		return 0, own.failed(ctx, "find the process", fmt.Errorf("%w: process %d does not belong to the container on "+
			"this side of the PID namespace", bench.ErrUnsupported, info.Pid))
	}
	return info.Pid, nil
}

// inCgroupNamed reports whether a process is in a cgroup that is named after a pod or container. Then
// the server and tare see processes under the same numbers.
func inCgroupNamed(pid int, id string) bool {
	h, err := cgroup.Detect("/")
	return err == nil && readback.InGroupOf(h, pid, id)
}
