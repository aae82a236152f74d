package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// maker returns what brings the project up and down in one trial.
func (p *project) maker() maker {
	if p.program != nil {
		return p.program
	}
	return &bareLoop{project: p}
}

// trial brings the project up and down once.
func (p *project) trial(ctx context.Context, m bench.Meter) (err error) {
	defer func() { m.Cleanup(func(ctx context.Context) error { return p.clear(ctx, err != nil) }) }()
	maker := p.maker()
	called, seen, err := p.up(ctx, m, maker)
	if err != nil {
		return err
	}
	if err := p.attest(ctx, m); err != nil {
		return err
	}
	down, err := maker.down(ctx, m)
	if err != nil {
		return err
	}
	if err := p.requireGone(ctx); err != nil {
		return err
	}
	since := func(moment time.Duration) float64 { return (moment - called.Begin).Seconds() }
	m.Record(Up, since(max(called.End, slices.Max(seen))))
	m.Record(Command, called.Duration().Seconds())
	m.Record(Down, down.Duration().Seconds())
	if p.sockets == nil {
		return nil
	}
	times := make([]float64, len(seen))
	for i, at := range seen {
		times[i] = since(at)
	}
	m.Record(First, slices.Min(times))
	m.Series(First, times)
	return nil
}

// up returns the span of the maker's part, and when each service was seen to be ready.
func (p *project) up(ctx context.Context, m bench.Meter, maker maker) (bench.Span, []time.Duration, error) {
	limited, cancel := context.WithTimeoutCause(ctx, p.timeout, errTimeout)
	defer cancel()
	w := p.watch(limited, m.Now)
	called, err := maker.up(limited, m)
	if err == nil {
		_, err = m.Step("ready", func() error { return w.await(limited) })
	}
	cancel()
	seen := w.stop()
	if err != nil && errors.Is(err, errTimeout) {
		err = p.late(ctx, err, seen)
	}
	return called, seen, err
}

// attest checks that the engine has what was to be made. The sample keeps what was applied to the first
// service.
func (p *project) attest(ctx context.Context, m bench.Meter) error {
	_, err := m.Step("inspect", func() error {
		members, err := p.projecter.Members(ctx, p.name)
		if err != nil {
			return err
		}
		for _, m := range members {
			p.volumes = append(p.volumes, m.Volumes...)
		}
		for i, s := range p.services {
			found := membersOf(members, s.name)
			if len(found) == 0 {
				return fmt.Errorf("%w: service %s was not made", bench.ErrMismatch, s.name)
			}
			if err := p.attestService(ctx, m, s, found[0], i == 0); err != nil {
				return fmt.Errorf("service %s: %w", s.name, err)
			}
		}
		return nil
	})
	return err
}

// attestService checks one service. What a file of the user asks for is the user's business.
func (p *project) attestService(
	ctx context.Context, m bench.Recorder, s service, found bench.Member, first bool,
) error {
	want := s.spec
	if p.sockets == nil {
		if !first {
			return nil
		}
		want.Image = found.Image
	}
	c, err := p.adopter.Adopt(ctx, found.ID, want)
	if err != nil {
		return err
	}
	got, err := c.Inspect(ctx)
	if err != nil {
		return err
	}
	if p.sockets == nil {
		want.Limits, want.Security, want.Network = got.Limits, got.Security, got.Network
	}
	if p.program != nil {
		got.Maker = p.program.title()
	}
	if first {
		return m.Applied(want, got)
	}
	return bench.Attest(want, got)
}

func membersOf(all []bench.Member, service string) []bench.Member {
	return slices.DeleteFunc(slices.Clone(all), func(m bench.Member) bool { return m.Service != service })
}

// requireGone checks that no container of the project is left after down.
func (p *project) requireGone(ctx context.Context) error {
	members, err := p.projecter.Members(ctx, p.name)
	if err == nil && len(members) > 0 {
		err = &bench.OpError{Op: Down, Err: fmt.Errorf("it was reported as done, but left the container of service %s",
			members[0].Service)}
	}
	return err
}

// settleTime is how long an engine may go on with a call that was cut short.
const settleTime = 300 * time.Millisecond

// clear removes whatever is left of the project. Volumes are left by every down, and networks by that of
// podman-compose before 1.0.4.
func (p *project) clear(ctx context.Context, cut bool) error {
	volumes := p.volumes
	p.volumes = nil
	err := p.projecter.RemoveProject(ctx, p.name, volumes...)
	if !cut {
		return err
	}
	return errors.Join(bench.Sleep(ctx, settleTime), p.projecter.RemoveProject(ctx, p.name, volumes...))
}
