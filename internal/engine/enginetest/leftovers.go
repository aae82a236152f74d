package enginetest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

// A run that dies leaves objects that the next one finds by the dead run's ID:
// all of them, and nothing else.
func leftovers(t *testing.T, s *suite) {
	if s.Remote {
		return
	}
	cleaner, ok := bench.As[bench.Cleaner](s.engine)
	if !ok {
		t.Fatal("the engine is no bench.Cleaner: nothing could be removed after a crash")
	}
	alive := s.ready(t, s.spec("hold"), "ready\n")
	data := t.TempDir()
	dead, outside := s.abandon(t, data)

	if left := list(t, cleaner, func(string) bool { return false }); len(left) != 0 {
		t.Errorf("Leftovers of no run: %v", left)
	}
	isDead := func(run string) bool { return run == dead.Run }
	left := list(t, cleaner, isDead)
	if len(left) == 0 {
		t.Error("Leftovers finds nothing of a run that left a container")
	}
	for _, l := range left {
		s.clean(t, cleaner, l, dead.Run)
	}
	if left := list(t, cleaner, isDead); len(left) != 0 {
		t.Errorf("Leftovers after they were removed: %v", left)
	}
	s.nothingLeft(t, dead)
	emptied(t, data, outside...)
	if len(alive.processes(t)) == 0 {
		t.Error("cleaning up after one run killed a container of another")
	}
}

func list(t *testing.T, c bench.Cleaner, dead func(string) bool) []bench.Leftover {
	t.Helper()
	left, err := c.Leftovers(t.Context(), dead)
	if err != nil {
		t.Fatalf("Leftovers: %v", err)
	}
	return left
}

// clean removes one leftover, twice: "It is not an error if it is gone."
func (s *suite) clean(t *testing.T, c bench.Cleaner, l bench.Leftover, run string) {
	t.Helper()
	if l.Run != run || l.Engine != s.engine.Name() || l.Kind == "" || l.ID == "" {
		t.Errorf("leftover %+v, want one of run %s and engine %s", l, run, s.engine.Name())
		return
	}
	for range 2 {
		if err := c.RemoveLeftover(t.Context(), l); err != nil {
			t.Errorf("RemoveLeftover(%+v): %v", l, err)
		}
	}
}

// abandon leaves behind a running container, one that was not started, and some with data outside,
// like a run that was killed. At the end of the subtest it releases what it still holds in this
// process.
func (s *suite) abandon(t *testing.T, data string) (_ Env, outside []string) {
	t.Helper()
	env := newSite(t, filepath.Dir(s.env.Dir), s.env.Images)
	other := &suite{Options: s.Options, env: env, engine: s.Open(t, env), cleaned: true}
	t.Cleanup(func() {
		if err := other.engine.Close(context.Background()); err != nil {
			t.Errorf("Close after everything was removed by another: %v", err)
		}
	})
	other.ready(t, other.spec("fork", "3"), "forked 3\n")
	spec := other.spec("hold")
	switch { // some networks are made for the run
	case s.Simulated:
	case !s.unsupported(NetworkMacvlan):
		spec.Network = "macvlan"
	case !s.unsupported(NetworkBridge):
		spec.Network = "bridge"
	}
	other.create(t, spec)
	return env, other.leavesData(t, data)
}
