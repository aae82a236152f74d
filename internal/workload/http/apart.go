package http

import (
	"context"
	"errors"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
)

// keepApart sees to it that client and server run on CPUs of their own. A server that
// is told which has done so already; what an image runs by itself runs wherever its
// container lets it: in the cell's set of CPUs or, if it has none, in one of the server's
// own, where the engine can do that.
func (s *stage) keepApart(ctx context.Context) error {
	s.apart = len(s.cpus.client) > 0
	if !s.apart || s.kind != ownServer {
		return nil
	}
	if set := s.server.Limits.CPUSet; set != "" {
		theirs, _ := affinity.Parse(set) // one of another form no engine accepts
		s.apart = !slices.ContainsFunc(theirs, func(cpu int) bool { return slices.Contains(s.cpus.client, cpu) })
		return nil
	}
	kept := s.server
	kept.Limits.CPUSet = affinity.Format(s.cpus.server)
	switch err := s.try(ctx, kept); {
	case err == nil:
		s.server = kept
	case errors.Is(err, bench.ErrUnsupported), errors.Is(err, bench.ErrMismatch):
		s.apart = false
	default:
		return err
	}
	return nil
}

// try finds out whether the engine makes such a container: some say so and do not.
func (s *stage) try(ctx context.Context, spec bench.Spec) error {
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
		removed = c.Remove(context.WithoutCancel(ctx)) // what fails is tried once more, as in a trial
	}
	if err = errors.Join(err, removed); err != nil {
		return err
	}
	return bench.Attest(spec, got)
}
