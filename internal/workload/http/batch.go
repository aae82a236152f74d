package http

import (
	"context"
	"reflect"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// batch are stages of one cell that load the same server, that of the first stage, one
// after the other.
type batch []*fixture

// Batch implements supervise.Batcher: stages that need the same server can share one.
func (s *fixture) Batch(others ...bench.Fixture) (supervise.Batched, bool) {
	all := batch{s}
	for _, o := range others {
		next, ok := o.(*fixture)
		if !ok || !s.sameServer(next) {
			return nil, false
		}
		all = append(all, next)
	}
	return all, true
}

// sameServer reports whether two stages of one cell need the same server.
func (s *fixture) sameServer(o *fixture) bool {
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

// Reset implements supervise.Batched.
func (t batch) Reset(ctx context.Context) error {
	if err := t[0].task.Engine.Prepare(ctx, t[0].server); err != nil {
		return err
	}
	for _, s := range t {
		if err := s.client.Prepare(ctx, s.clientSpec); err != nil {
			return err
		}
	}
	return nil
}

// Work implements supervise.Batched.
func (t batch) Work(ctx context.Context, m bench.Meter, sinks []supervise.PartSink) error {
	first := t[0]
	if first.kind == imageServer || first.task.Params["port"] != "0" { // others have a free one
		if err := supervise.CheckPort(first.task.Turns, first.server.Network, first.port); err != nil {
			return err
		}
	}
	server, err := supervise.Start(ctx, first.task.Engine, first.server, m, "server")
	if err != nil {
		return err
	}
	defer m.Cleanup(server.Remove)
	v := &loadRun{fixture: first, clock: m, server: server, port: first.port}
	if err := v.whileServing(ctx, v.awaitServer); err != nil {
		return err
	}
	for i, l := range sinks {
		turn := *v
		turn.fixture, turn.to = t[i], l.Recorder
		if err := server.EndPart(ctx, l, turn.whileServing(ctx, turn.measure)); err != nil {
			return err
		}
	}
	if err := supervise.LastTurn(ctx, first.task.Turns); err != nil {
		return err
	}
	return m.Applied(first.server, server.Applied(ctx, m))
}
