package http

import (
	"context"
	"errors"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
)

// separateCPUs makes client and server run on separate CPUs. A server of tare's or nginx
// gets its CPUs by an option. An image's own server runs wherever its container lets it:
// in the cell's set of CPUs or, if the cell has none, in the server's set, if the engine
// supports that.
func (s *fixture) separateCPUs(ctx context.Context) error {
	s.separate = len(s.cpus.client) > 0
	if !s.separate || s.kind != imageServer {
		return nil
	}
	if set := s.server.Limits.CPUSet; set != "" {
		theirs, _ := affinity.Parse(set) // no engine accepts an invalid set
		s.separate = !slices.ContainsFunc(theirs, func(cpu int) bool { return slices.Contains(s.cpus.client, cpu) })
		return nil
	}
	kept := s.server
	kept.Limits.CPUSet = affinity.Format(s.cpus.server)
	switch err := s.try(ctx, kept); {
	case err == nil:
		s.server = kept
	case errors.Is(err, bench.ErrUnsupported), errors.Is(err, bench.ErrMismatch):
		s.separate = false
	default:
		return err
	}
	return nil
}

// try finds out whether the engine really makes such a container: some ignore limits
// without an error.
func (s *fixture) try(ctx context.Context, spec bench.Spec) error {
	if err := s.task.Engine.Prepare(ctx, spec); err != nil {
		return err
	}
	c, err := s.task.Engine.Create(ctx, spec)
	if err != nil {
		return err
	}
	got, err := c.Inspect(ctx)
	removed := c.Remove(context.WithoutCancel(ctx))
	if removed != nil {
		removed = c.Remove(context.WithoutCancel(ctx)) // one retry, as in a trial
	}
	if err = errors.Join(err, removed); err != nil {
		return err
	}
	return bench.Attest(spec, got)
}
