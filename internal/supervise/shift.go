package supervise

import (
	"context"
	"reflect"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// A Sharer is a Fixture whose trials can be done in a container that others of its
// cell use as well.
type Sharer interface {
	bench.Fixture
	// Share returns the work of this fixture and of others, one after the other in one
	// container; false where they cannot be done in one.
	Share(others ...bench.Fixture) (Shared, bool)
}

// Shared is the work of several fixtures of one cell in one container: a trial of it
// takes less time than one of a container for each.
type Shared interface {
	// Reset comes before each trial, in place of that of the fixtures.
	Reset(ctx context.Context) error
	// Work does one trial: it tells each of the listeners, which are in the order of the
	// fixtures, what its part came to and what the kernel counted meanwhile, and m what
	// the engine applied. An error is one of all parts.
	Work(ctx context.Context, m bench.Meter, listeners []Listener) error
}

// A Listener is who hears of one part of what is shared.
type Listener struct {
	Recorder bench.Recorder
	Err      func(error) error // what remains of an error of the part; nil lets the next one begin
}

// Pass ends a listener's part, of which failed is the error. What the kernel counted
// since the part before is this one's, and recorded unless it failed; what it counts
// from now on is the next one's. An error ends the trial for all of them.
func (p *Process) Pass(ctx context.Context, l Listener, failed error) error {
	if err := l.Err(failed); err != nil {
		return err
	}
	if counts := p.CountNew(ctx); failed == nil {
		Record(l.Recorder, counts)
	}
	return nil
}

// Join has fixtures share a container; false where they cannot.
func Join(fixtures ...bench.Fixture) (Shared, bool) {
	if len(fixtures) == 0 {
		return nil, false
	}
	first, ok := fixtures[0].(Sharer)
	if !ok {
		return nil, false
	}
	return first.Share(fixtures[1:]...)
}

// A Shift is the shared work of jobs.
type Shift struct {
	engine bench.Engine
	spec   bench.Spec // but for the arguments
	jobs   []Job
	loads  [][]string // of the process
	nth    []int      // of the loads, each job's own, from 1
}

// Share implements Sharer. Jobs cannot be done in one container by other programs
// than the agent, with different options of the container, or after a load that
// goes on.
func (s *Jobs) Share(others ...bench.Fixture) (Shared, bool) {
	shift := &Shift{engine: s.engine}
	for _, f := range append([]bench.Fixture{s}, others...) {
		one, ok := f.(*Jobs)
		if !ok || len(one.jobs) != 1 || !shift.take(one.jobs[0]) {
			return nil, false
		}
	}
	return shift, true
}

func (s *Shift) take(j Job) bool {
	spec, ok := j.Spec, j.Load != nil
	if last := len(s.jobs) - 1; ok && last >= 0 {
		// What goes on once it has reported is for jobs of the same load alone: a
		// server has several clients.
		ok = !s.jobs[last].Serves || slices.Equal(s.jobs[last].Load, j.Load)
		if ok {
			spec, ok = both(s.spec, j.Spec)
		}
	}
	if !ok {
		return false
	}
	if n := len(s.loads); n == 0 || !slices.Equal(s.loads[n-1], j.Load) {
		s.loads = append(s.loads, j.Load)
	}
	s.spec, s.jobs, s.nth = spec, append(s.jobs, j), append(s.nth, len(s.loads))
	return true
}

// both returns what two jobs of a cell ask for: what only one of them has a wish
// about is as it wishes.
func both(a, b bench.Spec) (bench.Spec, bool) {
	if a.Network == "" {
		a.Network, a.Reach, a.Ports = b.Network, b.Reach, b.Ports
	}
	if a.Storage == "" {
		a.Storage, a.Data = b.Storage, b.Data
	}
	for _, one := range b.Env {
		if !slices.Contains(a.Env, one) {
			a.Env = append(slices.Clip(a.Env), one)
		}
	}
	if b.Network == "" {
		b.Network, b.Reach, b.Ports = a.Network, a.Reach, a.Ports
	}
	if b.Storage == "" {
		b.Storage, b.Data = a.Storage, a.Data
	}
	b.Env = a.Env
	return a, reflect.DeepEqual(a, b)
}

// Reset implements Shared.
func (s *Shift) Reset(ctx context.Context) error {
	return prepare(ctx, s.engine, s.full(), s.jobs...)
}

func (s *Shift) full() bench.Spec {
	spec := s.spec
	spec.Argv = Loads(s.loads...)
	return spec
}

// Work implements Shared.
func (s *Shift) Work(ctx context.Context, m bench.Meter, listeners []Listener) error {
	spec := s.full()
	p, err := Start(ctx, s.engine, spec, m, "")
	if err != nil {
		return err
	}
	defer m.Cleanup(p.Remove)
	for i, l := range listeners {
		if err := p.Pass(ctx, l, s.jobs[i].done(ctx, p, bench.MeterOf(m, l.Recorder), s.nth[i])); err != nil {
			return err
		}
	}
	return m.Applied(spec, p.Applied(ctx, m))
}
