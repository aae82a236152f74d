// Package net has the workloads of the network: a server in the container, a
// client beside it, and what a request or a stream of bytes takes between them.
//
// The server is tare's own agent, or the host's sockperf or iperf3, in the
// cell's container. The client is a plain process of this host or, where the
// cell's Reach is "peer", a container beside the server's.
package net

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/supervise"
)

// serverPort is where a server listens that has a network of its own.
const serverPort = 4810

// tokenVariable is where client and server find the token that they share.
const tokenVariable = "TARE_NET_TOKEN"

// check is Check of both workloads.
func check(w bench.Workload, t bench.Task, by *tool) error {
	spec := t.Spec
	var why string
	switch _, reachable := bench.As[bench.Addresser](t.Engine); {
	case !reachable:
		why = fmt.Sprintf("engine %s does not tell where its containers are reached", t.Engine.Name())
	case spec.Network == "none":
		why = "network none: nobody can reach the container: use network host or bridge"
	case len(spec.Argv) > 0 || spec.Image != "" && spec.Image != bench.AgentImage:
		why = "the workload brings its own server: leave image and argv out"
	default:
		return by.find(w.Params(), t.Params)
	}
	return fmt.Errorf("%w: %s", bench.ErrUnsupported, why)
}

// A stage is what the trials of one cell have in common.
type stage struct {
	task   bench.Task
	server bench.Spec   // of the container
	client bench.Engine // that makes the client
	beside bench.Spec   // of the client, but for its arguments

	tool    *tool // nil for tare's own agent
	options toolOptions
}

// setUp decides on what network the server is, and where the client.
func setUp(ctx context.Context, t bench.Task) (*stage, error) {
	t.Spec.Storage, t.Spec.Data = "", "" // a server keeps none
	spec, err := supervise.Reachable(ctx, t, serverPorts())
	if err != nil {
		return nil, err
	}
	s := &stage{task: t, server: spec, client: t.Client}
	if spec.Reach == bench.ReachPeer {
		s.client, s.beside = t.Engine, spec
		s.beside.Limits = bench.Limits{}
	}
	if supervise.OwnNetwork(spec.Network) {
		s.server.Ports = serverPorts()
	}
	return s, nil
}

// port is where a server listens that has a network of its own; 0 else.
func (s *stage) port() uint16 {
	if len(s.server.Ports) == 0 {
		return 0
	}
	return serverPort
}

// jobs are those of a trial with tare's own agent for client and server, who show
// one another a token.
func (s *stage) jobs(token, name, protocol string, options map[string]string) *supervise.Jobs {
	secret := tokenVariable + "=" + token
	s.server.Env = append(slices.Clip(s.server.Env), secret)
	s.beside.Env = []string{secret}
	return supervise.Stage(s.task.Engine, supervise.Job{
		Role: "server", Spec: s.server, Serves: true,
		Load:    []string{"net-server", fmt.Sprintf("port=%d", s.port())}, // 0 is one that is free
		Prepare: func(ctx context.Context) error { return s.client.Prepare(ctx, s.beside) },
		Finish: func(ctx context.Context, server *supervise.Process, m bench.Meter, r *load.Report) error {
			port, err := portOf(r)
			if err != nil {
				return err
			}
			v := &meeting{stage: s, meter: m, server: server, port: port}
			return v.measure(ctx, name, protocol, maps.Clone(options))
		},
	})
}

// serverPorts are those of a server that has a network of its own.
func serverPorts() []bench.Port {
	return []bench.Port{{Container: serverPort, Protocol: "tcp"}, {Container: serverPort, Protocol: "udp"}}
}

// Reset implements bench.Fixture, for tools: what is about to be made is prepared.
func (s *stage) Reset(ctx context.Context) error {
	if err := s.task.Engine.Prepare(ctx, s.server); err != nil {
		return err
	}
	return s.client.Prepare(ctx, s.beside)
}

// Remove implements bench.Fixture.
func (*stage) Remove(context.Context) error { return nil }
