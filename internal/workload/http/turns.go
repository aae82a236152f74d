package http

import (
	"context"
	"reflect"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// turns are stages of one cell that load the same server, that of the first stage, one
// after the other.
type turns []*stage

// Share implements supervise.Sharer: stages that need the same server can share one.
func (s *stage) Share(others ...bench.Fixture) (supervise.Shared, bool) {
	all := turns{s}
	for _, o := range others {
		next, ok := o.(*stage)
		if !ok || !s.alike(next) {
			return nil, false
		}
		all = append(all, next)
	}
	return all, true
}

// alike reports whether two stages of one cell need the same server.
func (s *stage) alike(o *stage) bool {
	for _, name := range serverOptions() {
		if s.task.Params[name] != o.task.Params[name] {
			return false
		}
	}
	return s.room == o.room && reflect.DeepEqual(s.task.Spec, o.task.Spec)
}

// serverOptions lists the options on which the server depends.
func serverOptions() []string {
	return []string{"server", "root", "port", "size", "tls", "http2", "pin"}
}

// Reset implements supervise.Shared.
func (t turns) Reset(ctx context.Context) error {
	if err := t[0].task.Engine.Prepare(ctx, t[0].server); err != nil {
		return err
	}
	for _, s := range t {
		if err := s.client.Prepare(ctx, s.beside); err != nil {
			return err
		}
	}
	return nil
}

// Work implements supervise.Shared.
func (t turns) Work(ctx context.Context, m bench.Meter, listeners []supervise.Listener) error {
	first := t[0]
	server, err := supervise.Start(ctx, first.task.Engine, first.server, m, "server")
	if err != nil {
		return err
	}
	defer m.Cleanup(server.Remove)
	v := &visit{stage: first, clock: m, server: server, port: first.port}
	if err := v.whileItRuns(ctx, v.find); err != nil {
		return err
	}
	for i, l := range listeners {
		turn := *v
		turn.stage, turn.to = t[i], l.Recorder
		if err := server.Pass(ctx, l, turn.whileItRuns(ctx, turn.measure)); err != nil {
			return err
		}
	}
	return m.Applied(first.server, server.Applied(ctx, m))
}
