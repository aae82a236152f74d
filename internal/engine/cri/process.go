package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/netpath"
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

// portsOf are a Spec's ports as a pod publishes them. CRI requires the host's port, so if the Spec
// names none, portsOf chooses one that is free now.
func portsOf(spec bench.Spec) ([]*cri.PortMapping, error) {
	if spec.Reach != bench.ReachPublished {
		return nil, nil
	}
	var all []*cri.PortMapping
	for _, p := range spec.Ports {
		m := &cri.PortMapping{ContainerPort: int32(p.Container), HostPort: int32(p.Host), HostIp: p.OnHost().String()}
		if p.Protocol == "udp" {
			m.Protocol = cri.Protocol_UDP
		}
		if m.HostPort == 0 {
			port, err := netpath.FreePort(p.OnHost(), p.Protocol)
			if err != nil {
				return nil, err
			}
			m.HostPort = int32(port)
		}
		all = append(all, m)
	}
	return all, nil
}

// Address asks the server for the pod's address. The host's ports are those that the pod was made
// with.
func (e *Engine) Address(ctx context.Context, c bench.Container, p bench.Port) (netip.AddrPort, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return netip.AddrPort{}, err
	}
	spec := own.pod.spec
	switch {
	case spec.Network != "bridge":
		return bench.OnLoopback(p.Container), nil
	case spec.Reach == bench.ReachPublished:
		return own.pod.published(p)
	}
	answer, err := own.pod.server.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: own.pod.id})
	if err != nil {
		return netip.AddrPort{}, e.failed(ctx, "inspect sandbox "+own.pod.id, err)
	}
	address, err := netip.ParseAddr(answer.GetStatus().GetNetwork().GetIp())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %s: the pod has no address", bench.ErrUnsupported, e.cfg.Name)
	}
	return netip.AddrPortFrom(address, p.Container), nil
}

// published returns the host's address and port for a port inside the pod.
func (p *pod) published(port bench.Port) (netip.AddrPort, error) {
	for _, m := range p.config.PortMappings {
		if m.ContainerPort == int32(port.Container) && (m.Protocol == cri.Protocol_UDP) == (port.Protocol == "udp") {
			return netip.AddrPortFrom(port.OnHost(), uint16(m.HostPort)), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("%w: %s: port %d/%s was not published", bench.ErrUnsupported, p.engine.cfg.Name,
		port.Container, port.Protocol)
}

// Path reads the path to the port from the kernel.
func (e *Engine) Path(ctx context.Context, c bench.Container, p bench.Port) ([]string, error) {
	own, err := e.containerOf(c)
	if err != nil {
		return nil, err
	}
	return netpath.PathTo(ctx, e, c, p, own.pod.spec.Reach)
}
