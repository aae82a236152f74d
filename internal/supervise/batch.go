package supervise

import (
	"context"
	"reflect"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
)

// A Batcher is a Fixture whose work can share a container with other fixtures of its cell.
type Batcher interface {
	bench.Fixture
	// Batch returns the work of this fixture and of others, one after the other in one
	// container; false if they cannot share one.
	Batch(others ...bench.Fixture) (Batched, bool)
}

// Batched is the work of several fixtures of one cell in one container, which takes less
// time than a container for each.
type Batched interface {
	// Reset is called before each trial, in place of the fixtures' own.
	Reset(ctx context.Context) error
	// Work does one trial. It reports each part's results and counters to its sink; sinks
	// are in the order of the fixtures. m gets what the engine applied. An error concerns
	// all parts.
	Work(ctx context.Context, m bench.Meter, sinks []PartSink) error
}

// A PartSink receives the results of one part of the shared work.
type PartSink struct {
	Number   int // of the part among those of all cells, from 0
	Recorder bench.Recorder
	Err      func(error) error // handles an error of the part; if it returns nil, the next part begins
}

// EndPart ends the part of a sink; failed is the part's error. The counters since the part
// before belong to this part, and are recorded unless it failed; later counters belong to
// the next part. An error ends the trial for all parts.
func (p *Process) EndPart(ctx context.Context, s PartSink, failed error) error {
	if err := s.Err(failed); err != nil {
		return err
	}
	if counts := p.CountNew(ctx); failed == nil {
		Record(s.Recorder, counts)
	}
	return nil
}

// NewBatch returns the shared work of fixtures; false if they cannot share a container.
func NewBatch(fixtures ...bench.Fixture) (Batched, bool) {
	if len(fixtures) == 0 {
		return nil, false
	}
	first, ok := fixtures[0].(Batcher)
	if !ok {
		return nil, false
	}
	return first.Batch(fixtures[1:]...)
}

// A Batch is the shared work of jobs.
type Batch struct {
	engine bench.Engine
	turns  bench.Turns // of the cell; nil if it takes none
	own    bench.Turns // of the process; nil if none of the jobs takes turns itself
	spec   bench.Spec  // without the arguments
	jobs   []Job
	loads  [][]string // of the process
	nth    []int      // by job: which of the loads is its own, from 1
}

// Batch implements Batcher. Jobs cannot share a container if one of them is not a load
// of the agent, if they need different options of the container, or after a load that
// does not end.
func (s *Jobs) Batch(others ...bench.Fixture) (Batched, bool) {
	batch := &Batch{engine: s.engine, turns: s.turns}
	for _, f := range append([]bench.Fixture{s}, others...) {
		one, ok := f.(*Jobs)
		if !ok || len(one.jobs) != 1 || !batch.add(one.jobs[0]) {
			return nil, false
		}
		if turns := one.turnsOf(&one.jobs[0]); turns != nil {
			batch.own = turns
		}
	}
	return batch, true
}

func (s *Batch) add(j Job) bool {
	spec, ok := j.Spec, j.Load != nil
	if last := len(s.jobs) - 1; ok && last >= 0 {
		// After a load that continues, only jobs of the same load can follow: several
		// clients of one server.
		ok = !s.jobs[last].KeepsRunning || slices.Equal(s.jobs[last].Load, j.Load)
		if ok {
			spec, ok = mergeSpecs(s.spec, j.Spec)
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

// mergeSpecs merges the Specs of two jobs of a cell; false if they contradict each other. A
// field that only one of them sets is as that one says.
func mergeSpecs(a, b bench.Spec) (bench.Spec, bool) {
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

// Reset implements Batched.
func (s *Batch) Reset(ctx context.Context) error {
	return prepare(ctx, s.engine, s.fullSpec(), s.jobs...)
}

func (s *Batch) fullSpec() bench.Spec {
	spec := s.spec
	spec.Argv = Loads(s.own, s.loads...)
	return spec
}

// Work implements Batched.
func (s *Batch) Work(ctx context.Context, m bench.Meter, sinks []PartSink) error {
	spec := s.fullSpec()
	p, err := Start(ctx, s.engine, spec, m, "")
	if err != nil {
		return err
	}
	defer m.Cleanup(p.Remove)
	if err := p.TakeTurns(ctx, s.own); err != nil {
		return err
	}
	for i, l := range sinks {
		if taken(s.turns) {
			s.turns.Part(l.Number)
		}
		if err := p.EndPart(ctx, l, s.jobs[i].done(ctx, p, bench.MeterOf(m, l.Recorder), s.nth[i])); err != nil {
			return err
		}
	}
	if err := LastTurn(ctx, s.turns); err != nil {
		return err
	}
	return m.Applied(spec, p.Applied(ctx, m))
}
