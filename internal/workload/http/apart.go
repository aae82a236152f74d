package http

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// keepApart sees to it that client and server run on CPUs of their own. A server that
// is told which has done so already; what an image runs by itself is kept there by its
// container, where the engine can do that.
func (s *stage) keepApart(ctx context.Context) error {
	s.apart = len(s.cpus.client) > 0
	if !s.apart || s.kind != ownServer || s.server.Limits.CPUSet != "" {
		return nil
	}
	kept := s.server
	kept.Limits.CPUSet = ranges(s.cpus.server)
	switch err := s.try(ctx, kept); {
	case err == nil:
		s.server = kept
	case errors.Is(err, bench.ErrUnsupported):
		s.apart = false
	default:
		return err
	}
	return nil
}

// try finds out whether the engine makes such a container.
func (s *stage) try(ctx context.Context, spec bench.Spec) error {
	if err := s.task.Engine.Prepare(ctx, spec); err != nil {
		return err
	}
	c, err := s.task.Engine.Create(ctx, spec)
	if err != nil {
		return err
	}
	return c.Remove(context.WithoutCancel(ctx))
}

// ranges lists CPUs, in ascending order, as the kernel does: "0-2,5".
func ranges(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		last := i
		for last+1 < len(cpus) && cpus[last+1] == cpus[last]+1 {
			last++
		}
		if part := strconv.Itoa(cpus[i]); last == i {
			parts = append(parts, part)
		} else {
			parts = append(parts, fmt.Sprintf("%s-%d", part, cpus[last]))
		}
		i = last + 1
	}
	return strings.Join(parts, ",")
}
