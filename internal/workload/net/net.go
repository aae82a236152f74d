// Package net has the workloads of the network: a server in the container, a client
// outside of it, and the round trips or the throughput between them.
//
// The server is tare's own agent, or the host's sockperf or iperf3, in the cell's
// container. The client is a plain process of this host or, if the cell's Reach is
// "peer", a second container.
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

// serverPort is the port of a server that has a network of its own.
const serverPort = 4810

// tokenVariable is the environment variable with the token that client and server share.
const tokenVariable = "TARE_NET_TOKEN"

// check is Check of both workloads.
func check(w bench.Workload, t bench.Task, by *tool) error {
	spec := t.Spec
	var why string
	switch _, reachable := bench.As[bench.Addresser](t.Engine); {
	case !reachable:
		why = fmt.Sprintf("engine %s does not tell the addresses of its containers", t.Engine.Name())
	case spec.Network == "none":
		why = "network none: the container cannot be reached: use network host or bridge"
	case len(spec.Argv) > 0 || spec.Image != "" && spec.Image != bench.AgentImage:
		why = "the workload brings its own server: leave image and argv out"
	default:
		return by.usable(w.Params(), t.Params)
	}
	return fmt.Errorf("%w: %s", bench.ErrUnsupported, why)
}

// A fixture is what the trials of one cell share.
type fixture struct {
	task       bench.Task
	server     bench.Spec   // of the server's container
	client     bench.Engine // the engine that makes the client
	clientSpec bench.Spec   // of the client, without its arguments

	tool    *tool // nil for tare's own agent
	options toolOptions
}

// setUp decides on which network the server is, and where the client runs.
func setUp(ctx context.Context, t bench.Task) (*fixture, error) {
	t.Spec.Storage, t.Spec.Data = "", "" // a server keeps no data
	spec, err := supervise.Reachable(ctx, t, serverPorts())
	if err != nil {
		return nil, err
	}
	s := &fixture{task: t, server: spec, client: t.Client}
	if spec.Reach == bench.ReachPeer {
		s.client, s.clientSpec = t.Engine, spec
		s.clientSpec.Limits = bench.Limits{}
	}
	if supervise.OwnNetwork(spec.Network) {
		s.server.Ports = serverPorts()
	}
	return s, nil
}

// port returns the port of a server that has a network of its own; otherwise 0.
func (s *fixture) port() uint16 {
	if len(s.server.Ports) == 0 {
		return 0
	}
	return serverPort
}

// jobs returns the jobs of a trial with tare's own agent as client and server. Each of
// them shows the other the token.
func (s *fixture) jobs(token, name, protocol string, options map[string]string) *supervise.Jobs {
	secret := tokenVariable + "=" + token
	s.server.Env = append(slices.Clip(s.server.Env), secret)
	s.clientSpec.Env = []string{secret}
	return supervise.NewJobs(s.task, supervise.Job{
		Role: "server", Spec: s.server, KeepsRunning: true,
		Load:    []string{"net-server", fmt.Sprintf("port=%d", s.port())}, // 0 = any free port
		Prepare: func(ctx context.Context) error { return s.client.Prepare(ctx, s.clientSpec) },
		Finish: func(ctx context.Context, server *supervise.Process, m bench.Meter, r *load.Report) error {
			port, err := portOf(r)
			if err != nil {
				return err
			}
			v := &trial{fixture: s, meter: m, server: server, port: port}
			return v.measure(ctx, name, protocol, maps.Clone(options))
		},
	})
}

// serverPorts returns the ports of a server that has a network of its own.
func serverPorts() []bench.Port {
	return []bench.Port{{Container: serverPort, Protocol: "tcp"}, {Container: serverPort, Protocol: "udp"}}
}

// Reset implements bench.Fixture, for tools: it prepares the containers of the trial.
func (s *fixture) Reset(ctx context.Context) error {
	if err := s.task.Engine.Prepare(ctx, s.server); err != nil {
		return err
	}
	return s.client.Prepare(ctx, s.clientSpec)
}

// Remove implements bench.Fixture.
func (*fixture) Remove(context.Context) error { return nil }
