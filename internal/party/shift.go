package party

import (
	"context"
	"reflect"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// A Shift is several jobs of one cell in one container, one after the other: a
// trial of it takes less time than one of a container for each. It is a Fixture
// for all of them.
type Shift struct {
	engine bench.Engine
	spec   bench.Spec // but for the arguments
	jobs   []Job
	loads  [][]string // of the process
	nth    []int      // of the loads, each job's own, from 1
}

// Join returns a shift of the jobs of fixtures; false where they cannot be done in
// one container: by other programs than the agent, with different options of the
// container, or after a load that goes on.
func Join(e bench.Engine, fixtures ...bench.Fixture) (*Shift, bool) {
	s := &Shift{engine: e}
	for _, f := range fixtures {
		one, ok := f.(*Jobs)
		if !ok || len(one.jobs) != 1 || !s.take(one.jobs[0]) {
			return nil, false
		}
	}
	return s, len(s.jobs) > 0
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

// Reset implements bench.Fixture.
func (s *Shift) Reset(ctx context.Context) error {
	return prepare(ctx, s.engine, s.full(), s.jobs...)
}

// Remove implements bench.Fixture.
func (*Shift) Remove(context.Context) error { return nil }

func (s *Shift) full() bench.Spec {
	spec := s.spec
	spec.Argv = Loads(s.loads...)
	return spec
}

// A Listener is who hears of one job of a shift.
type Listener struct {
	Meter bench.Meter
	Err   func(error) error // what remains of an error of the job; nil lets the next one begin
}

// Work does one trial: it tells each of the listeners, which are in the order of
// the jobs, what its job found and what the kernel counted meanwhile, and m what
// the engine applied.
func (s *Shift) Work(ctx context.Context, m bench.Meter, listeners []Listener) error {
	spec := s.full()
	p, err := Start(ctx, s.engine, spec, m, "")
	if err != nil {
		return err
	}
	defer p.End()
	var before Counts
	for i, l := range listeners {
		failed := s.jobs[i].done(ctx, p, l.Meter, s.nth[i])
		if err := l.Err(failed); err != nil {
			return err
		}
		now, _ := p.count(ctx) // nothing where it cannot be looked at any more, and not what was known before
		if failed == nil {
			Record(l.Meter, now.since(&before))
		}
		before = now
	}
	return m.Applied(spec, p.Applied(ctx))
}
